/* The figures of the settings: one variant's button hides it, the measure is switched. */
(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const plots = [...document.querySelectorAll(".setting .plot")];
  const buttons = [...document.querySelectorAll("button[data-section]")];
  const labelOf = (button) => button.dataset.label;
  const sections = [...new Set(buttons.map((button) => button.dataset.section))];
  const number = (section) => section.replace("setting-", "");
  const of = (section, kind) => buttons.filter((button) => button.dataset.section === section && kind in button.dataset);

  for (const section of sections) {
    const labels = new Set(of(section, "variant").map(labelOf)), measures = of(section, "measure").map((button) => button.dataset.measure);
    Address.field(`hidden-${number(section)}`, [], (label) => labels.has(label));
    if (measures.length) Address.field(`measure-${number(section)}`, [measures[0]], (measure) => measures.includes(measure));
  }
  const hidden = (section) => Address.get(`hidden-${number(section)}`);
  const measureOf = (section, spec) => of(section, "measure").length ? Address.get(`measure-${number(section)}`)[0] : Object.keys(spec.views)[0];

  function layout(spec, measure, small, narrow) {
    const [shortest, longest] = spec.span.map(Math.log10);
    const margin = Math.max(0.03, (longest - shortest) * 0.03);
    const [from, to] = spec.trained.map(Math.log10);
    const edge = [Math.max(from - margin * 0.6, shortest - margin), Math.min(to + margin * 0.6, longest + margin)];
    return {
      ...Look.layout(small, narrow), ...Look.trained(10 ** edge[0], 10 ** edge[1], small),
      xaxis: { ...Look.xAxis("input length (symbols, log scale)", small), type: "log", range: [shortest - margin, longest + margin], tickvals: spec.ticks, ticktext: spec.ticks.map(String) },
      yaxis: { ...Look.yAxis(spec.labels[measure], small), range: spec.range[measure], tickformat: ".0%" },
    };
  }

  function draw(element) {
    const spec = specs[element.id], section = element.dataset.section, small = element.classList.contains("facet");
    const measure = measureOf(section, spec), away = new Set(of(section, "variant").filter((button) => hidden(section).includes(labelOf(button))).map((button) => Number(button.dataset.variant)));
    const traces = spec.views[measure].filter((trace) => small || !away.has(trace.meta.variant)).map(Look.coloured);
    Plotly.react(element, traces, layout(spec, measure, small, element.clientWidth < 500), Look.config(small, "lengthwise"));
    element.dataset.drawn = "yes";
  }
  const redraw = (section) => plots.filter((plot) => plot.dataset.drawn && (!section || plot.dataset.section === section)).forEach(draw);

  const watcher = Look.whenNear(draw);
  plots.forEach((plot) => watcher.observe(plot));
  window.addEventListener("beforeprint", () => plots.filter((plot) => !plot.dataset.drawn).forEach(draw));

  function keys() {
    for (const slot of document.querySelectorAll(".setting .slot")) slot.replaceChildren(Look.key(Look.colour(slot.dataset.colour), slot.dataset.dash, slot.dataset.symbol));
  }
  keys();
  Look.dark.addEventListener("change", () => { keys(); redraw(); });

  const last = {};
  Address.changed(() => {
    for (const section of sections) {
      const now = JSON.stringify([hidden(section), of(section, "measure").length && Address.get(`measure-${number(section)}`)]);
      if (last[section] === now) continue;
      const first = !(section in last);
      last[section] = now;
      for (const button of of(section, "variant")) {
        const shown = !hidden(section).includes(labelOf(button));
        button.setAttribute("aria-pressed", String(shown));
        for (const facet of document.querySelectorAll(`#${section} .facets figure[data-variant="${button.dataset.variant}"]`)) facet.hidden = !shown;
      }
      for (const button of of(section, "measure")) button.setAttribute("aria-pressed", String(Address.get(`measure-${number(section)}`)[0] === button.dataset.measure));
      if (!first) redraw(section);
    }
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-section]");
    if (!button) return;
    const section = button.dataset.section;
    if (button.dataset.measure) { Address.set({ [`measure-${number(section)}`]: [button.dataset.measure] }); return; }
    const away = hidden(section), label = labelOf(button);
    Address.set({ [`hidden-${number(section)}`]: away.includes(label) ? away.filter((other) => other !== label) : [...away, label] });
  });
})();
