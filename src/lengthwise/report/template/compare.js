/* Lines: accuracy or loss against length, one a variant; and training curves, one a run. Small multiples by a factor. */
(() => {
  const { data, variants, settings, shown, factors, byLabel, axes, one, make, $, plain, percent, plural, styleOf, named, yes } = Explorer;
  const DETAIL = 12; // with more lines in a panel, seeds and bands would hide the means
  const RUNS = 300, PANELS = 48, LEGEND = 40;

  const curveOf = (variant, measure) => variant.curves[settings[variant.setting].measures[measure] || measure];
  const measures = Object.keys(data.measures).filter((measure) => variants.some((variant) => variant.curves[measure]));
  const curves = Object.keys(data.curves).filter((curve) => Explorer.runs.some((run) => run.training[curve]));

  // Where there are few variants each has its own colour, else each encoding; what is left to tell apart is laid out.
  const few = variants.length <= 10, most = Math.max(...settings.map((_, at) => variants.filter((variant) => variant.setting === at).length));
  const spread = factors.filter((factor) => factor.words.length > 1 && new Set(variants.map(factor.of)).size > 1);
  const main = few ? one : spread.find((factor) => factor.name === "pe") || spread[0] || one;
  const settled = new Set(["task", "lengths"]); // settings have panels of their own anyway
  const apart = most <= DETAIL ? null : spread.filter((factor) => factor !== main && !settled.has(factor.name) && factor.words.length <= 8).sort((a, b) => a.words.length - b.words.length)[0];
  const byFactor = axes.map((factor) => [factor.name, factor.name]);
  Explorer.select("measure", "measure", measures.map((measure) => [measure, data.measures[measure]]), measures[0] || "");
  Explorer.select("colour", "colour", byFactor, main.name);
  Explorer.select("facet", "facet", [["none", "nothing"], ...byFactor], apart ? apart.name : "none");
  Explorer.select("axis", "axis", [["log", "logarithmic"], ["linear", "linear"]], "log");
  Explorer.check("seeds", "seeds", true);
  Explorer.check("bands", "bands", true);
  Explorer.select("curve", "curve", curves.map((curve) => [curve, data.curves[curve]]), curves[0] || "");
  Explorer.select("scale", "scale", [["linear", "linear"], ["log", "logarithmic"]], "linear");

  /** Items in panels: one a setting and value of the facet's factor. */
  function panelsOf(items) {
    const facet = named("facet"), several = new Set(items.map((item) => item.setting)).size > 1, panels = new Map();
    for (const item of items) {
      const setting = item.setting, value = facet ? facet.of(item) : 0, key = `${setting}/${value}`;
      if (!panels.has(key)) panels.set(key, { key, setting, value, items: [], title: [facet && (facet === byLabel ? facet.words[value] ?? "no variant" : `${facet.name} ${facet.words[value] ?? "unknown"}`), several && (setting < 0 ? "nothing finished" : settings[setting].title)].filter(Boolean).join(" · ") });
      panels.get(key).items.push(item);
    }
    return [...panels.values()].sort((a, b) => a.setting - b.setting || a.value - b.value);
  }

  const boards = [];
  /** Draws panels into a container; each when it is near the window, or comes near. */
  function board(container) {
    let drawn = new Map();
    const draw = (plot) => { plot.stale = false; plot.dataset.drawn = "yes"; plot.redraw(); };
    const watcher = new IntersectionObserver((entries) => { for (const { target, isIntersecting } of entries) { target.near = isIntersecting; if (target.near && target.stale) draw(target); } }, { rootMargin: "300px" });
    boards.push(() => { for (const { plot } of drawn.values()) if (plot.stale) draw(plot); });
    return (panels, figure, name) => {
      const cut = panels.slice(0, PANELS), keys = cut.map((panel) => panel.key).join();
      if (container.dataset.keys !== keys || container.dataset.single !== String(cut.length < 2)) {
        watcher.disconnect();
        for (const { plot } of drawn.values()) if (plot.dataset.drawn) Plotly.purge(plot);
        drawn = new Map(cut.map((panel) => {
          const plot = make("div", { class: `plot ${cut.length < 2 ? "overview" : "panel"}`, role: "img" }), heading = make("h4", {});
          return [panel.key, { plot, heading }];
        }));
        container.replaceChildren(...[...drawn.values()].map(({ plot, heading }) => make("figure", {}, heading, plot)));
        for (const { plot } of drawn.values()) watcher.observe(plot);
        container.dataset.keys = keys;
        container.dataset.single = String(cut.length < 2);
      }
      container.classList.toggle("panels", cut.length > 1);
      for (const panel of cut) {
        const { plot, heading } = drawn.get(panel.key);
        heading.textContent = panel.title;
        heading.hidden = !panel.title;
        plot.setAttribute("aria-label", `${name}${panel.title ? `, ${panel.title}` : ""}: ${plural(panel.items.length, "item")}. The heat map by length holds the figures.`);
        plot.redraw = () => { const { traces, layout } = figure(panel, cut.length > 1, plot.clientWidth < 500); Plotly.react(plot, traces, layout, Look.config(cut.length > 1, "lengthwise")); };
        plot.stale = true;
        if (plot.near) draw(plot);
      }
    };
  }
  window.addEventListener("beforeprint", () => boards.forEach((drawStale) => drawStale()));

  /** The colours of the items that all filters but those of the colour's own factor let through. */
  function legend(id, all) {
    const factor = named("colour"), style = styleOf(factor), items = all.filter((item) => Explorer.passes(item, factor)), present = [...new Set(items.map(factor.of))].sort((a, b) => a - b);
    const entries = present.slice(0, LEGEND).map((at) => { const look = style(at), about = [Look.key(look.colour, look.dash, look.symbol), make("bdi", {}, look.text)];
      if (!Explorer.filtered(factor) || at < 0) return make("li", {}, ...about);
      const on = Explorer.chosen(factor).has(at);
      return make("li", {}, make("button", { type: "button", "aria-pressed": String(on), class: Explorer.chosen(factor).size && !on ? "off" : null, title: on ? "Take this filter away" : Explorer.chosen(factor).size ? "Show this too" : "Show only this", "data-at": at,
        onclick: () => { Explorer.toggle(factor, at, !on); const again = $(id).querySelector(`[data-at="${at}"]`); if (again) again.focus(); } }, ...about));
    });
    if (present.length > LEGEND) entries.push(make("li", {}, `and ${present.length - LEGEND} more`));
    $(id).replaceChildren(make("li", { class: "by" }, factor === byLabel ? "" : factor.name), ...entries);
    $(id).hidden = present.length < 2 && factor === byLabel && items.length < 2;
  }

  /** Lines of one look are one trace, with gaps between them: hundreds of lines stay quick. */
  function lines(groups, add) {
    return [...groups].map(([at, items]) => { const trace = { x: [], y: [], text: [], customdata: [] }; for (const item of items) add(item, trace); return [at, trace]; });
  }
  const grouped = (items, factor) => { const groups = new Map(); for (const item of items) { const at = factor.of(item); if (!groups.has(at)) groups.set(at, []); groups.get(at).push(item); } return [...groups].sort((a, b) => a[0] - b[0]); };
  const gap = (trace) => { trace.x.push(null); trace.y.push(null); trace.text.push(""); trace.customdata.push(null); };

  // --- against length
  const compareBoard = board($("compare-panels"));
  const worded = (measure, value) => measure === "loss" ? value.toPrecision(4) : percent(value);
  const interval = (measure, low, high) => low === null ? "" : measure === "loss" ? ` [${low.toPrecision(4)}, ${high.toPrecision(4)}]` : ` [${(100 * low).toFixed(1)}, ${(100 * high).toFixed(1)}]`;

  function compareFigure(panel, small, narrow, bounds) {
    const measure = Address.get("measure")[0], logarithmic = Address.get("axis")[0] === "log", setting = settings[panel.setting];
    const factor = named("colour"), style = styleOf(factor), groups = grouped(panel.items, factor), detail = panel.items.length <= DETAIL, traces = [];
    if ((setting.measures[measure] || measure) === "token_accuracy") {
      setting.baselines.forEach((baseline, n) => traces.push({
        x: baseline.at, y: baseline.values, mode: "lines", line: { color: Look.colour("@baseline"), width: 1.5, dash: ["dash", "dot", "longdash", "dashdot"][n % 4] },
        text: baseline.at.map((length, k) => `baseline: ${plain(baseline.name)}<br>length ${length}: ${percent(baseline.values[k])}`), hovertemplate: "%{text}<extra></extra>", meta: { baseline: baseline.name },
      }));
    }
    if (detail && yes("bands")) {
      for (const [at, trace] of lines(groups, (variant, band) => {
        const curve = curveOf(variant, measure), known = curve.at.map((_, k) => k).filter((k) => curve.low[k] !== null);
        if (!known.length) return;
        for (const k of [...known, ...known.slice().reverse().map((one) => -1 - one)]) { band.x.push(curve.at[k < 0 ? -1 - k : k]); band.y.push(k < 0 ? curve.low[-1 - k] : curve.high[k]); }
        band.x.push(null); band.y.push(null);
      })) traces.push({ x: trace.x, y: trace.y, mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: Look.faded(style(at).colour, 0.13), hoverinfo: "skip", meta: { band: style(at).text } });
    }
    if (detail && yes("seeds")) {
      for (const [at, trace] of lines(groups, (variant, seeds) => {
        const curve = curveOf(variant, measure);
        for (const [seed, values] of Object.entries(curve.seeds)) {
          curve.at.forEach((length, k) => { seeds.x.push(length); seeds.y.push(values[k]); seeds.customdata.push(variant.label); seeds.text.push(values[k] === null ? "" : `${plain(variant.label)}, seed ${plain(seed)}<br>length ${length}: ${worded(measure, values[k])}`); });
          gap(seeds);
        }
      })) traces.push({ ...trace, mode: "lines", line: { color: Look.faded(style(at).colour, 0.4), width: 1, dash: style(at).dash }, hovertemplate: "%{text}<extra></extra>", meta: { seeds: style(at).text } });
    }
    for (const [at, trace] of lines(groups, (variant, mean) => {
      const curve = curveOf(variant, measure);
      curve.at.forEach((length, k) => {
        mean.x.push(length); mean.y.push(curve.mean[k]); mean.customdata.push(variant.label);
        mean.text.push(`<b>${plain(variant.label)}</b><br>length ${length}: ${worded(measure, curve.mean[k])}${interval(measure, curve.low[k], curve.high[k])}<br>mean of ${plural(curve.n[k], "seed")}, ${curve.items[k]} test sequences`);
      });
      gap(mean);
    })) traces.push({
      ...trace, mode: "lines+markers", hovertemplate: "%{text}<extra></extra>", meta: { mean: style(at).text, factor: factor.name },
      line: { color: Look.faded(style(at).colour, detail ? 1 : 0.7), width: detail ? (small ? 2 : 2.5) : 1.2, dash: style(at).dash }, marker: { color: style(at).colour, size: detail ? (small ? 5 : 7) : 3.5, symbol: style(at).symbol },
    });

    const lengths = setting.lengths, [first, last] = [lengths[0], lengths[lengths.length - 1]], margin = logarithmic ? Math.max(0.03, Math.log10(last / first) * 0.03) : Math.max(0.5, (last - first) * 0.02);
    const [lower, upper] = logarithmic ? [first / 10 ** margin, last * 10 ** margin] : [first - margin, last + margin];
    const edge = (length, sign) => logarithmic ? length * 10 ** (sign * margin * 0.6) : length + sign * margin * 0.6;
    const shade = [Math.max(edge(setting.trained[0], -1), lower), Math.min(edge(setting.trained[1], 1), upper)];
    const at = Look.ticks(lengths, logarithmic);
    const layout = {
      ...Look.layout(small, narrow), ...Look.trained(shade[0], shade[1], small),
      xaxis: { ...Look.xAxis(`input length (symbols${logarithmic ? ", log scale" : ""})`, small), type: logarithmic ? "log" : "linear", range: logarithmic ? [Math.log10(lower), Math.log10(upper)] : [lower, upper], tickvals: at, ticktext: at.map(String) },
      yaxis: { ...Look.yAxis(data.measures[measure], small), range: bounds, ...(measure === "loss" ? {} : { tickformat: ".0%" }) },
    };
    return { traces, layout };
  }

  /** One range for all panels, from the points and not the intervals, which may reach 0 with few seeds. */
  function boundsOf(items, measure) {
    let low = Infinity, high = -Infinity;
    const see = (value) => { if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); } };
    for (const variant of items) { const curve = curveOf(variant, measure); curve.mean.forEach(see); if (items.length <= 200) Object.values(curve.seeds).forEach((values) => values.forEach(see)); }
    if (measure === "token_accuracy") for (const setting of new Set(items.map((item) => settings[item.setting]))) setting.blind.forEach(see);
    if (measure === "loss") { const pad = (high - low || 1) * 0.06; return [low - pad, high + pad]; }
    return [Math.max(-0.03, low - 0.07), 1.03];
  }

  if (measures.length) Explorer.view(["measure", "colour", "facet", "axis", "seeds", "bands"], () => {
    const measure = Address.get("measure")[0], items = shown.variants.filter((variant) => curveOf(variant, measure)), left = shown.variants.length - items.length;
    const bounds = boundsOf(items, measure), panels = panelsOf(items), crowded = panels.filter((panel) => panel.items.length > DETAIL).length;
    const against = `${measure === "loss" ? "Loss" : "Accuracy"} against length`;
    $("compare-title").textContent = `Compare: ${against.toLowerCase()}`;
    legend("compare-legend", variants.filter((variant) => curveOf(variant, measure)));
    compareBoard(panels, (panel, small, narrow) => compareFigure(panel, small, narrow, bounds), against);
    $("compare-note").textContent = [
      !items.length && "No variant with such a measure passes the filters.",
      crowded && `Means only where a panel has more than ${DETAIL} lines${panels.length > 1 ? ` (${plural(crowded, "panel")})` : ""}: filter, or choose a facet, to see seeds and bands.`,
      left && items.length && `${plural(left, "variant")} without this measure ${left === 1 ? "is" : "are"} not drawn.`,
      panels.length > PANELS && `The first ${PANELS} of ${panels.length} panels.`,
      items.some((variant) => settings[variant.setting].tested > settings[variant.setting].lengths.length) && "Of many tested lengths some are drawn, evenly spread.",
      measure === "loss" && "The intervals of a loss are over seeds alone.",
    ].filter(Boolean).join(" ");
  });

  else $("compare").hidden = true;

  // --- training
  if (!curves.length) { $("training").hidden = true; return; }
  const trainingBoard = board($("training-panels"));
  function trainingFigure(panel, small, narrow, bounds) {
    const curve = Address.get("curve")[0], logarithmic = Address.get("scale")[0] === "log", factor = named("colour"), style = styleOf(factor), single = panel.items.length <= DETAIL;
    const traces = lines(grouped(panel.items, factor), (run, trace) => {
      const [steps, values] = run.training[curve];
      steps.forEach((step, k) => { trace.x.push(step); trace.y.push(values[k]); trace.customdata.push(run.run); trace.text.push(`${plain(run.variant ? run.variant.label : run.state)}, seed ${plain(run.seed)}<br>step ${step}: ${values[k] === null ? "not finite" : values[k]}${run.state === "done" ? "" : `<br>${plain(run.state)}`}`); });
      gap(trace);
    }).map(([at, trace]) => ({ ...trace, mode: "lines", line: { color: Look.faded(style(at).colour, single ? 0.9 : 0.45), width: single ? 1.6 : 1, dash: style(at).dash }, hovertemplate: "%{text}<extra></extra>", meta: { training: style(at).text } }));
    const layout = {
      ...Look.layout(small, narrow), xaxis: { ...Look.xAxis("step", small), rangemode: "tozero", nticks: small ? 5 : 8 },
      yaxis: { ...Look.yAxis(data.curves[curve], small), type: logarithmic ? "log" : "linear", range: logarithmic ? bounds.map(Math.log10) : bounds, ...(curve.endsWith("accuracy") ? { tickformat: ".0%" } : {}) },
    };
    return { traces, layout };
  }

  Explorer.view(["curve", "scale", "colour", "facet"], () => {
    const curve = Address.get("curve")[0], logarithmic = Address.get("scale")[0] === "log", all = shown.runs.filter((run) => run.training[curve]), items = all.slice(0, RUNS);
    let low = Infinity, high = -Infinity;
    for (const run of items) for (const value of run.training[curve][1]) if (value !== null && (!logarithmic || value > 0)) { low = Math.min(low, value); high = Math.max(high, value); }
    const pad = (high - low || 1) * 0.05, bounds = logarithmic ? [low / 1.15, high * 1.15] : [low - pad, high + pad];
    legend("training-legend", Explorer.runs.filter((run) => run.training[curve]));
    trainingBoard(panelsOf(items), (panel, small, narrow) => trainingFigure(panel, small, narrow, bounds), data.curves[curve]);
    $("training-note").textContent = items.length < all.length ? `The first ${items.length} of ${all.length} runs: filter to see others.` : items.length ? "" : "No run with such a curve passes the filters.";
  });
})();
