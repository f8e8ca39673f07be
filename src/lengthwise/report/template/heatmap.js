/* One figure over two factors, as a table whose cells are coloured. */
(() => {
  const { data, variants, settings, shown, factors, byLabel, axes, one, make, $, percent, plural, error } = Explorer;
  const LENGTH = "length";
  const spread = factors.filter((factor) => new Set(variants.map(factor.of)).size > 1);
  const rows = spread.find((factor) => factor.name === "pe") || spread[0] || one;
  const tasks = settings.length > 1 ? spread.find((factor) => factor.name === "task") || spread.find((factor) => factor.name === "lengths") : null;
  const columns = (tasks !== rows && tasks) || spread.find((factor) => factor !== rows && factor.words.length <= 12);
  const byFactor = axes.map((factor) => [factor.name, factor.name]);
  const lengths = [...new Set(settings.flatMap((setting) => setting.lengths))].sort((a, b) => a - b);
  const measured = variants.some((variant) => Object.keys(variant.curves).length), symmetric = variants.some((variant) => variant.symmetry && variant.symmetry.errors);
  const cells = [
    ...(measured ? [["longest", "at the longest length"], ["trained", "over the trained lengths"], ["reach", "reach"]] : []),
    ...(symmetric ? [["error", "equivariance error (log scale)"]] : []),
    ...(measured ? lengths.map((length) => [String(length), `at length ${length}`]) : []),
  ];
  if (!cells.length || !variants.length) { $("heat-map").hidden = true; return; }
  Explorer.select("rows", "rows", byFactor, rows.name);
  Explorer.select("columns", "columns", [...(measured ? [[LENGTH, "length"]] : []), ...byFactor], columns ? columns.name : measured ? LENGTH : one.name);
  Explorer.select("cell", "cell", cells, cells[0][0]);

  const LEAST = 1e-17; // an error of exactly 0 has no logarithm
  const measureOf = (setting) => { const measure = Address.get("measure")[0]; return setting.measures[measure] || measure; };

  /** The figure of one variant, the runs behind it, and whether it is only a lower bound; null where it has none. */
  function valueOf(variant, cell) {
    const setting = settings[variant.setting], measure = measureOf(setting);
    const found = (value, runs, open = false) => value === null || value === undefined ? null : { variant, value, runs, open };
    if (cell === "error") return variant.symmetry && variant.symmetry.errors ? found(variant.symmetry.errors[2], variant.symmetry.n) : null;
    if (cell === "reach") { const reach = variant.reach[measure] || Object.values(variant.reach)[0]; return reach ? found(reach[0], variant.runs.length, reach[1]) : null; } // a loss has none
    if (cell === "trained") return variant.trained[measure] ? found(variant.trained[measure][0], variant.trained[measure][3]) : null;
    const curve = variant.curves[measure], at = curve ? curve.at.indexOf(cell === "longest" ? setting.longest : Number(cell)) : -1;
    return at < 0 ? null : found(curve.mean[at], curve.n[at]);
  }

  /** Over which lengths a mean over trained lengths is: those that all runs of a setting were tested at. */
  function overTrained(items) {
    const said = [...new Set(items.map((variant) => variant.setting))].filter((at) => settings[at].over).map((at) => [settings[at].title, settings[at].over]), alike = new Set(said.map(([, over]) => over)).size < 2;
    return said.length ? `Over the trained lengths that all runs of a setting were tested at: ${alike ? said[0][1] : said.slice(0, 6).map(([title, over]) => `${over} (${title})`).join("; ") + (said.length > 6 ? `; and ${said.length - 6} more settings` : "")}.` : null;
  }

  const KINDS = {
    error: { mean: (values) => 10 ** (values.reduce((sum, value) => sum + Math.log10(Math.max(value, LEAST)), 0) / values.length), said: (value) => error(value <= LEAST ? 0 : value), part: (value) => (Math.log10(Math.max(value, 1e-16)) + 16) / 16, ends: ["1e-16", "1"] },
    reach: { mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length, said: (value) => String(Math.round(value * 10) / 10), part: (value, high) => Math.log1p(value) / Math.log1p(high || 1) },
    loss: { mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length, said: (value) => value.toPrecision(3), part: (value, high, low) => (value - low) / (high - low || 1) },
    accuracy: { mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length, said: (value) => (100 * value).toFixed(1), part: (value, high, low) => (value - low) / (1 - low || 1) },
  };

  function draw() {
    const [rowName, columnName, cell] = ["rows", "columns", "cell"].map((key) => Address.get(key)[0]), byLength = columnName === LENGTH;
    const factorOf = (name) => name === byLabel.name ? byLabel : factors.find((factor) => factor.name === name);
    const row = factorOf(rowName), column = byLength ? null : factorOf(columnName);
    const kind = KINDS[!byLength && KINDS[cell] ? cell : Address.get("measure")[0] === "loss" ? "loss" : "accuracy"];
    const found = new Map(), rowsSeen = new Set(), columnsSeen = new Set(), settingsIn = new Set();
    const put = (r, c, one) => {
      if (!one) return;
      const key = `${r}/${c}`;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(one);
      rowsSeen.add(r); columnsSeen.add(c);
    };
    for (const variant of shown.variants) {
      if (byLength) lengths.forEach((length, c) => put(row.of(variant), c, valueOf(variant, String(length))));
      else put(row.of(variant), column.of(variant), valueOf(variant, cell));
    }
    const ascending = (set) => [...set].sort((a, b) => a - b), means = new Map();
    for (const [key, items] of found) means.set(key, kind.mean(items.map((one) => one.value)));
    const high = Math.max(...means.values()), low = kind === KINDS.accuracy ? Math.min(Math.floor(Math.min(...means.values()) * 10) / 10, 0.9) : Math.min(...means.values());
    const columnWord = (c) => byLength ? lengths[c] : column.words[c];
    const measure = data.measures[Address.get("measure")[0]], asked = cells.find(([name]) => name === cell)[1];
    const what = byLength ? measure : KINDS[cell] ? asked : `${measure} ${asked}`;
    let mixed = 0, pooled = 0, ended = 0;
    const body = ascending(rowsSeen).map((r) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, row.words[r])), ...ascending(columnsSeen).map((c) => {
      const items = found.get(`${r}/${c}`);
      if (!items) return make("td", { class: "empty" }, "–");
      const mean = means.get(`${r}/${c}`), paint = Look.ramp("heat", kind.part(mean, high, low)), runs = items.reduce((sum, one) => sum + one.runs, 0);
      if (new Set(items.map((one) => one.variant.setting)).size > 1) mixed += 1;
      const bound = (open) => open ? "≥ " : "", open = items.some((one) => one.open);
      if (open) ended += 1;
      if (items.length > 1) pooled += 1;
      const about = items.length > 1 ? `${plural(items.length, "variant")}, ${plural(runs, "run")}` : plural(runs, "run");
      const each = items.slice(0, 12).map((one) => `${one.variant.label}: ${bound(one.open)}${kind.said(one.value)}`).join("\n") + (items.length > 12 ? `\nand ${items.length - 12} more` : "");
      return make("td", { style: `background:${paint};color:${Look.inkOn(paint)}`, title: `${row.name} ${row.words[r]}, ${byLength ? "length" : column.name} ${columnWord(c)}: ${bound(open)}${kind.said(mean)}\n${about}\n${each}` }, `${bound(open)}${kind.said(mean)}`, make("small", {}, about));
    })));
    $("heat-table").replaceChildren(
      make("caption", { class: "unseen" }, `${what}: rows are ${row.name}, columns ${byLength ? "length" : column.name}; each cell says how many variants and runs are behind it.`),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, `${row.name} \\ ${byLength ? "length" : column.name}`), ...ascending(columnsSeen).map((c) => make("th", { scope: "col" }, make("bdi", {}, columnWord(c)))))),
      make("tbody", {}, ...body));
    const ends = kind.ends || (kind === KINDS.accuracy ? [`${Math.round(100 * low)} %`, "100 %"] : kind === KINDS.reach ? ["0", kind.said(high)] : [kind.said(low), kind.said(high)]);
    $("heat-scale").replaceChildren(ends[0], make("span", { class: "ramp", "aria-hidden": "true", style: `background:linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((part) => Look.ramp("heat", part)).join(", ")})` }), ends[1]);
    $("heat-scale").hidden = !found.size;
    $("cell").disabled = byLength;
    $("heat-note").textContent = [
      !found.size && "No variant with such a figure passes the filters.",
      (kind === KINDS.accuracy || kind === KINDS.loss) && found.size && `${what[0].toUpperCase()}${what.slice(1)}${kind === KINDS.loss ? "" : ", in %"}.`,
      !byLength && cell === "longest" && "The longest length that all runs of a setting were tested at.",
      !byLength && cell === "trained" && found.size && overTrained(shown.variants),
      !byLength && cell === "reach" && `Reach: the longest tested length up to which the mean stays at ${percent(data.success).replace(".0", "")} or more; 0 where not even the shortest has it.${ended ? " ≥: up to the longest test, so that it may be longer." : ""}`,
      !byLength && cell === "error" && "After training, float64, random permutations, relative to ‖f(x)‖.",
      pooled && `${pooled === found.size ? "Each cell" : "A cell"} with several variants shows the ${!byLength && cell === "error" ? "geometric " : ""}mean of their means, without an interval: they differ in more than their seeds.`,
      mixed && `${plural(mixed, "cell")} mix${mixed === 1 ? "es" : ""} tasks or trained lengths: choose one.`,
    ].filter(Boolean).join(" ");
  }
  Explorer.view(["rows", "columns", "cell", "measure"], draw);
})();
