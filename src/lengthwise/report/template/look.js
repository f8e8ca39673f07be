"use strict";
/* Colours, dashes and marks, for light and dark. Nothing is told by colour alone. */
const Look = (() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Told apart with any of the common colour deficiencies together with dash and marker; contrast at least 3 : 1.
  // `ordered` and `heat` run evenly from light to dark (on dark paper from dark to light).
  const palettes = {
    light: { 0: "#5f6673", 1: "#a86500", 2: "#c2377f", 3: "#1f6fb5", 4: "#c2501a", 5: "#0b7a5f", 6: "#7a4fb8", 7: "#6b7a00",
             inside: "#1f6fb5", outside: "#c2501a", baseline: "#8a92a0", ink: "#1b1f27", soft: "#5b6472", grid: "#e8ebf0", shade: "#8fa3bf", paper: "#ffffff",
             ordered: ["#c98a00", "#c2501a", "#a3265f", "#5b2a86", "#1f2f6b"], heat: ["#f1f5fb", "#bcd5ee", "#74abdc", "#3478b8", "#143f78"] },
    dark: { 0: "#aab2c0", 1: "#e8b34a", 2: "#ff86bd", 3: "#74b3f2", 4: "#ff9a66", 5: "#4fd1ad", 6: "#c59cf5", 7: "#c3d24e",
            inside: "#74b3f2", outside: "#ff9a66", baseline: "#7d8796", ink: "#e7eaf0", soft: "#a1aab8", grid: "#262d38", shade: "#7f95b5", paper: "#12151b",
            ordered: ["#5f7fe0", "#9a78e8", "#d672bd", "#ff9a66", "#ffe08a"], heat: ["#1a212c", "#22456d", "#3474b0", "#6fb0e6", "#c8e4fb"] },
  };
  const COLOURS = 7, DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross", "pentagon", "hexagon"];
  const strokes = { solid: "", dash: "6 3", dot: "2 3", dashdot: "6 3 2 3", longdash: "9 4" };
  const marks = {
    circle: "M13 2.5a3.5 3.5 0 1 0 .01 0z", square: "M10 3h6v6h-6z", diamond: "M13 1.5 17.5 6 13 10.5 8.5 6z", "triangle-up": "M13 2 17 9.5H9z",
    x: "M9.5 4 11 2.5l2 2 2-2L16.5 4l-2 2 2 2L15 9.5l-2-2-2 2L9.5 8l2-2z", star: "M13 1.5l1.4 3 3.2.3-2.4 2.1.7 3.2L13 8.4l-2.9 1.7.7-3.2L8.4 4.8l3.2-.3z",
    "triangle-down": "M13 10 17 2.5H9z", cross: "M11.5 2h3v2.5H17v3h-2.5V10h-3V7.5H9v-3h2.5z", pentagon: "M13 2l4 3-1.5 4.7h-5L9 5z", hexagon: "M11 2.5h4L17 6l-2 3.5h-4L9 6z",
  };
  const palette = () => palettes[dark.matches ? "dark" : "light"];
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const faded = (hex, alpha) => `rgba(${rgb(hex).join(",")},${alpha})`;

  /** A name such as "@3", "@inside" or "@3/0.2" (20 % opacity) as a colour. */
  function colour(name) {
    const [key, alpha] = name.slice(1).split("/");
    return alpha ? faded(palette()[key], alpha) : palette()[key];
  }

  /** The same figure with all names of colours replaced. */
  function coloured(node) {
    if (typeof node === "string") return /^@[a-z0-9]+(\/[\d.]+)?$/.test(node) ? colour(node) : node;
    if (Array.isArray(node)) return node.some((item) => item && typeof item === "object") ? node.map(coloured) : node;
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, coloured(value)]));
    return node;
  }

  /** The colour at `part` (0 to 1) of the scale "ordered" or "heat". */
  function ramp(scale, part) {
    const stops = palette()[scale], at = Math.min(Math.max(part, 0), 1) * (stops.length - 1), from = Math.min(Math.floor(at), stops.length - 2);
    const [a, b] = [rgb(stops[from]), rgb(stops[from + 1])];
    return `#${a.map((value, k) => Math.round(value + (b[k] - value) * (at - from)).toString(16).padStart(2, "0")).join("")}`;
  }

  /** Black or white, whichever is easier to read on `hex`. */
  function inkOn(hex) {
    const light = rgb(hex).map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
    return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? "#000000" : "#ffffff";
  }

  /** A short line with its mark, as it stands in a legend. */
  function key(shade, dash, symbol) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ width: 26, height: 12, viewBox: "0 0 26 12", class: "key", "aria-hidden": "true" })) svg.setAttribute(name, value);
    for (const [d, paint] of [["M1 6h24", { stroke: shade, "stroke-width": 2.2, "stroke-dasharray": strokes[dash] }], [marks[symbol], { fill: shade }]]) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      for (const [name, value] of Object.entries({ d, ...paint })) path.setAttribute(name, value);
      svg.append(path);
    }
    return svg;
  }

  const font = (size) => ({ family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size, color: palette().soft });

  /** What all figures have in common. */
  function layout(small, narrow) {
    const look = palette();
    return {
      font: font(small ? 11 : 13), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest", dragmode: false,
      margin: small ? { l: 44, r: 8, t: 6, b: 42 } : { l: narrow ? 48 : 58, r: 12, t: 14, b: 50 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: look.soft, activecolor: look.ink },
      hoverlabel: { bgcolor: look.paper, bordercolor: look.soft, font: { ...font(13), color: look.ink }, align: "left" },
    };
  }

  function xAxis(title, small) {
    const look = palette();
    return { showgrid: false, zeroline: false, linecolor: look.grid, showline: true, ticks: "outside", tickcolor: look.grid, fixedrange: true,
             title: { text: title, standoff: small ? 5 : 10, font: font(small ? 11 : 12.5) } };
  }

  function yAxis(title, small) {
    return { gridcolor: palette().grid, zeroline: false, nticks: small ? 5 : 8, fixedrange: true, title: { text: small ? "" : title, standoff: 8, font: font(12.5) } };
  }

  /** The trained lengths, shaded. */
  function trained(from, to, small) {
    return {
      shapes: [{ type: "rect", xref: "x", yref: "paper", x0: from, x1: to, y0: 0, y1: 1, line: { width: 0 }, fillcolor: palette().shade, opacity: 0.15, layer: "below" }],
      annotations: small ? [] : [{ xref: "x", yref: "paper", x: from, y: 0, xanchor: "left", yanchor: "bottom", showarrow: false, text: "trained", font: font(12) }],
    };
  }

  /** Of tested lengths those whose labels do not touch on an axis, the longest always. */
  function ticks(lengths, logarithmic) {
    const kept = lengths.slice(-1), gap = (lengths[lengths.length - 1] - lengths[0]) / 9;
    for (const length of lengths.slice(0, -1).reverse()) {
      if (logarithmic ? length * 1.35 <= kept[0] : kept[0] - length >= gap) kept.unshift(length);
    }
    return kept;
  }

  const config = (small, name) => ({ displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: small ? false : "hover",
                                     modeBarButtons: [["toImage"]], toImageButtonOptions: { format: "svg", filename: name } });

  /** Calls `draw` with each element when it first comes near the window, so that a page with many figures opens at once. */
  function whenNear(draw) {
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }, { rootMargin: "600px" });
    return watcher;
  }

  return { dark, palette, colour, coloured, faded, ramp, inkOn, key, font, layout, xAxis, yAxis, trained, ticks, config, whenNear, COLOURS, DASHES, SYMBOLS };
})();
