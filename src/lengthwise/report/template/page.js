"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Told apart with any of the common colour deficiencies together with dash and marker; contrast at least 3 : 1.
  const palettes = {
    light: { 0: "#5f6673", 1: "#a86500", 2: "#c2377f", 3: "#1f6fb5", 4: "#c2501a", 5: "#0b7a5f", 6: "#7a4fb8", 7: "#6b7a00",
             inside: "#1f6fb5", outside: "#c2501a", baseline: "#8a92a0", ink: "#1b1f27", soft: "#5b6472", grid: "#e8ebf0", shade: "#8fa3bf", paper: "#ffffff" },
    dark: { 0: "#aab2c0", 1: "#e8b34a", 2: "#ff86bd", 3: "#74b3f2", 4: "#ff9a66", 5: "#4fd1ad", 6: "#c59cf5", 7: "#c3d24e",
            inside: "#74b3f2", outside: "#ff9a66", baseline: "#7d8796", ink: "#e7eaf0", soft: "#a1aab8", grid: "#262d38", shade: "#7f95b5", paper: "#12151b" },
  };
  const hidden = {};   // section -> set of variants
  const measures = {}; // section -> measure shown
  const palette = () => palettes[dark.matches ? "dark" : "light"];

  function colour(name) {
    const [key, alpha] = name.slice(1).split("/");
    const hex = palette()[key];
    if (!alpha) return hex;
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  }

  function coloured(node) {
    if (typeof node === "string") return /^@[a-z0-9]+(\/[\d.]+)?$/.test(node) ? colour(node) : node;
    if (Array.isArray(node)) return node.some((item) => item && typeof item === "object") ? node.map(coloured) : node;
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, coloured(value)]));
    return node;
  }

  function layout(spec, measure, small, narrow) {
    const look = palette();
    const [shortest, longest] = spec.span.map(Math.log10);
    const margin = Math.max(0.03, (longest - shortest) * 0.03);
    const font = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: small ? 11 : 13, color: look.soft };
    const [from, to] = spec.trained.map(Math.log10);
    const edge = [Math.max(from - margin * 0.6, shortest - margin), Math.min(to + margin * 0.6, longest + margin)];
    return {
      font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest", dragmode: false,
      margin: small ? { l: 44, r: 8, t: 6, b: 34 } : { l: narrow ? 48 : 58, r: 12, t: 14, b: 50 },
      xaxis: { type: "log", range: [shortest - margin, longest + margin], tickvals: spec.ticks, ticktext: spec.ticks.map(String), showgrid: false, zeroline: false,
               linecolor: look.grid, showline: true, ticks: "outside", tickcolor: look.grid, title: { text: small ? "" : "input length (symbols, log scale)", standoff: 10, font: { ...font, size: 12.5 } }, fixedrange: true },
      yaxis: { range: spec.range[measure], tickformat: ".0%", gridcolor: look.grid, zeroline: false, nticks: small ? 5 : 8, fixedrange: true,
               title: { text: small ? "" : spec.labels[measure], standoff: 8, font: { ...font, size: 12.5 } } },
      shapes: [{ type: "rect", xref: "x", yref: "paper", x0: 10 ** edge[0], x1: 10 ** edge[1], y0: 0, y1: 1, line: { width: 0 }, fillcolor: look.shade, opacity: 0.15, layer: "below" }],
      annotations: small ? [] : [{ xref: "x", yref: "paper", x: edge[0], y: 0, xanchor: "left", yanchor: "bottom", showarrow: false, text: "trained", font: { ...font, size: 12 } }],
      modebar: { bgcolor: "rgba(0,0,0,0)", color: look.soft, activecolor: look.ink },
      hoverlabel: { bgcolor: look.paper, bordercolor: look.soft, font: { ...font, color: look.ink, size: 13 }, align: "left" },
    };
  }

  function draw(element) {
    const spec = specs[element.id], section = element.dataset.section, small = element.classList.contains("facet");
    const measure = measures[section] || Object.keys(spec.views)[0];
    const away = hidden[section] || new Set();
    const traces = spec.views[measure].filter((trace) => small || !away.has(trace.meta.variant)).map(coloured);
    const config = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: small ? false : "hover",
                     modeBarButtons: [["toImage"]], toImageButtonOptions: { format: "svg", filename: "lengthwise" } };
    Plotly.react(element, traces, layout(spec, measure, small, element.clientWidth < 500), config);
    element.dataset.drawn = "yes";
  }

  const plots = [...document.querySelectorAll(".plot")];
  const redraw = (section) => plots.filter((plot) => plot.dataset.drawn && (!section || plot.dataset.section === section)).forEach(draw);

  // Only what comes into view is drawn, so that a page with many variants opens at once.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "600px" });
  plots.forEach((plot) => watcher.observe(plot));
  window.addEventListener("beforeprint", () => plots.filter((plot) => !plot.dataset.drawn).forEach(draw));

  const dashes = { solid: "", dash: "6 3", dot: "2 3", dashdot: "6 3 2 3", longdash: "9 4" };
  const marks = {
    circle: "M13 2.5a3.5 3.5 0 1 0 .01 0z", square: "M10 3h6v6h-6z", diamond: "M13 1.5 17.5 6 13 10.5 8.5 6z", "triangle-up": "M13 2 17 9.5H9z",
    x: "M9.5 4 11 2.5l2 2 2-2L16.5 4l-2 2 2 2L15 9.5l-2-2-2 2L9.5 8l2-2z", star: "M13 1.5l1.4 3 3.2.3-2.4 2.100.7 3.2L13 8.4l-2.900 1.7.7-3.2L8.4 4.800l3.2-.3z",
    "triangle-down": "M13 10 17 2.5H9z", cross: "M11.5 2h3v2.5H17v3h-2.5V10h-3V7.5H9v-3h2.5z", pentagon: "M13 2l4 3-1.5 4.7h-5L9 5z", hexagon: "M11 2.5h4L17 6l-2 3.5h-4L9 6z",
  };
  function keys() {
    for (const key of document.querySelectorAll(".key")) {
      const shade = colour(key.dataset.colour);
      key.innerHTML = `<path d="M1 6h24" stroke="${shade}" stroke-width="2.2" stroke-dasharray="${dashes[key.dataset.dash]}"/><path d="${marks[key.dataset.symbol]}" fill="${shade}"/>`;
    }
  }
  keys();
  dark.addEventListener("change", () => { keys(); redraw(); });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-section]");
    if (!button) return;
    const section = button.dataset.section;
    if (button.dataset.measure) {
      measures[section] = button.dataset.measure;
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
    } else {
      const away = (hidden[section] ||= new Set()), variant = Number(button.dataset.variant), shown = away.has(variant);
      if (shown) away.delete(variant); else away.add(variant);
      button.setAttribute("aria-pressed", String(shown));
      for (const facet of document.querySelectorAll(`#${section} .facets figure[data-variant="${variant}"]`)) facet.hidden = !shown;
    }
    redraw(section);
  });
})();
