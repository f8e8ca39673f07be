"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const palettes = {
    light: { lines: ["#1f6fb5", "#c2501a", "#0b7a5f", "#7a4fb8"], scale: [[0, "#1f5fa8"], [0.5, "#f5f7fa"], [1, "#b8481a"]],
             ink: "#1b1f27", soft: "#5b6472", grid: "#e8ebf0", paper: "#ffffff" },
    dark: { lines: ["#74b3f2", "#ff9a66", "#4fd1ad", "#c59cf5"], scale: [[0, "#82b6f5"], [0.5, "#1a1f28"], [1, "#ff9a66"]],
            ink: "#e7eaf0", soft: "#a1aab8", grid: "#262d38", paper: "#12151b" },
  };
  const dashes = ["solid", "dash", "dot", "dashdot"];

  function draw(element) {
    const spec = specs[element.id], look = palettes[dark.matches ? "dark" : "light"];
    const font = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 11, color: look.soft };
    const axis = (title) => ({ title: { text: title, standoff: 6 }, gridcolor: look.grid, zeroline: false, fixedrange: true, automargin: true });
    const layout = {
      font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 48, r: 8, t: 6, b: 40 }, dragmode: false,
      xaxis: axis(spec.x), yaxis: axis(spec.y), showlegend: Boolean(spec.lines && spec.lines.length > 1),
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }, hoverlabel: { font: { ...font, color: look.ink }, bgcolor: look.paper },
    };
    let traces;
    if (spec.z) {
      layout.yaxis.autorange = "reversed";
      traces = [{ type: "heatmap", z: spec.z, colorscale: look.scale, zmid: 0, hoverongaps: false, colorbar: { thickness: 8, outlinewidth: 0 },
                  hovertemplate: `${spec.y} %{y}, ${spec.x} %{x}: %{z}<extra></extra>` }];
    } else {
      traces = spec.lines.map((line, at) => ({
        x: line.at || line.values.map((_, k) => k), y: line.values, name: line.name, mode: "lines",
        line: { color: look.lines[at % 4], width: 2, dash: dashes[at % 4] }, hovertemplate: `${spec.x} %{x}: %{y}<extra>${line.name}</extra>`,
      }));
    }
    Plotly.react(element, traces, layout, { displayModeBar: false, responsive: true });
    element.dataset.drawn = "yes";
  }

  const plots = [...document.querySelectorAll(".plot")];
  // Only what comes into view is drawn, so that a page with many encodings opens at once.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "600px" });
  plots.forEach((plot) => watcher.observe(plot));
  window.addEventListener("beforeprint", () => plots.filter((plot) => !plot.dataset.drawn).forEach(draw));
  dark.addEventListener("change", () => plots.filter((plot) => plot.dataset.drawn).forEach(draw));
})();
