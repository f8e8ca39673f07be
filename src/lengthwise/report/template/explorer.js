/* The runs and their variants; which of them the filters let through; and the views that show those. */
const Explorer = (() => {
  const data = JSON.parse(document.getElementById("explorer").textContent);
  const RESERVED = new Set(["measure", "axis", "colour", "facet", "seeds", "bands", "rows", "columns", "cell", "curve", "scale", "sort", "find"]);
  const NOT_SET = "–"; // this run has no such option
  const word = (value) => value === null ? NOT_SET : String(value);
  const $ = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  const variants = data.variants, settings = data.settings, variantOf = new Map();
  for (const variant of variants) for (const run of variant.runs) variantOf.set(run, variant);
  const runs = data.runs.map((run) => ({ ...run, variant: variantOf.get(run.run) || null }));

  // A factor tells the index of an item's value among its words, -1 where nothing is known of it.
  const factors = data.factors.map((factor, at) => ({
    name: factor.name, key: RESERVED.has(factor.name) || /^(hidden|measure)-\d+$/.test(factor.name) ? `factor.${factor.name}` : factor.name, values: factor.values, words: factor.values.map(word),
    of: (item) => item.factors ? item.factors[at] : -1,
    ordered: factor.values.length > 2 && factor.values.every((value) => typeof value === "number"),
  }));
  const labels = [...new Set(variants.map((variant) => variant.label))], states = Object.keys(data.states);
  const byLabel = { name: "variant", key: "variant", words: labels, ordered: false };
  const byState = { name: "state", key: "state", words: states, of: (item) => states.indexOf(item.runs ? "done" : item.state), ordered: false };
  const labelIndex = new Map(labels.map((label, at) => [label, at]));
  byLabel.of = (item) => { const variant = item.runs ? item : item.variant; return variant ? labelIndex.get(variant.label) : -1; };
  // Where one factor tells all variants apart, a list of variants would be the same list again.
  const apart = factors.find((factor) => new Set(variants.map(factor.of)).size === labels.length && factor.words.length === labels.length);
  const axes = apart && labels.length > 1 ? factors : [byLabel, ...factors];
  const filters = [...factors, ...(labels.length > 1 && !apart ? [byLabel] : []), ...(states.length > 1 ? [byState] : [])];
  for (const factor of filters) Address.field(factor.key, [], (value) => factor.words.includes(value));

  const selection = (factor) => new Set(Address.get(factor.key).map((value) => factor.words.indexOf(value)));
  let selections = new Map();
  const passes = (item, except) => filters.every((factor) => factor === except || !selections.get(factor).size || selections.get(factor).has(factor.of(item)));

  // --- the list of filters
  const SHORT = 8, OPEN = 5;
  const boxes = new Map(); // factor -> [{box, count, row}]
  const list = $("factors");
  filters.forEach((factor, position) => {
    const rows = factor.words.map((text, at) => {
      const box = make("input", { type: "checkbox", value: text, onchange: () => toggle(factor, at, box.checked) });
      const count = make("span", { class: "count" });
      return { box, count, text: text.toLowerCase(), row: make("label", { class: "value" }, box, make("bdi", {}, text), count) };
    });
    boxes.set(factor, rows);
    const long = rows.length > SHORT;
    const search = long ? make("input", { type: "search", class: "find", placeholder: `find among ${rows.length}`, "aria-label": `Find a value of ${factor.name}`,
      oninput: () => { for (const one of rows) one.row.hidden = !one.text.includes(search.value.toLowerCase()); } }) : null;
    const values = make("div", { class: long ? "values long" : "values" }, ...rows.map((one) => one.row));
    const about = make("span", { class: "picked" });
    rows.about = about;
    list.append(make("details", { class: "factor", open: position < OPEN && !long, "data-factor": factor.name },
      make("summary", {}, make("span", { class: "name" }, factor.name), about),
      make("div", { role: "group", "aria-label": `Filter by ${factor.name}` }, search, values)));
  });

  function toggle(factor, at, on) {
    const now = selection(factor);
    if (on) now.add(at); else now.delete(at);
    Address.set({ [factor.key]: [...now].sort((a, b) => a - b).map((one) => factor.words[one]) });
  }
  /** Whether there are filters of `factor`. */
  const filtered = (factor) => filters.includes(factor);
  const clear = () => Address.set(Object.fromEntries(filters.map((factor) => [factor.key, []])));
  $("clear").addEventListener("click", () => { clear(); $("summary").focus(); });

  // --- choices other than filters
  /** A <select> bound to the address. `options`: [value, text]. */
  function select(id, key, options, initial) {
    const element = $(id);
    element.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
    Address.field(key, [initial], (value) => options.some(([known]) => known === value));
    element.addEventListener("change", () => Address.set({ [key]: [element.value] }));
    Address.changed(() => { element.value = Address.get(key)[0]; });
    element.closest("label").hidden = options.length < 2;
  }
  /** A checkbox bound to the address as yes or no. */
  function check(id, key, initial) {
    const element = $(id);
    Address.field(key, [initial ? "yes" : "no"], (value) => value === "yes" || value === "no");
    element.addEventListener("change", () => Address.set({ [key]: [element.checked ? "yes" : "no"] }));
    Address.changed(() => { element.checked = Address.get(key)[0] === "yes"; });
  }
  const yes = (key) => Address.get(key)[0] === "yes";
  const named = (key) => axes.find((factor) => factor.name === Address.get(key)[0]);

  // --- what is shown
  const views = [];
  const shown = { variants, runs };
  /** `draw` is called when a filter or one of `keys` has changed. It makes at once what has a height, so that no place moves later; figures may wait until they are near. */
  function view(keys, draw) {
    let last = null;
    views.push((anyway) => {
      const now = JSON.stringify([...filters.map((factor) => factor.key), ...keys].map(Address.get));
      if (now === last && !anyway) return;
      last = now;
      draw();
    });
  }

  const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  function summary() {
    const all = variants.length, some = shown.variants.length;
    $("summary").textContent = `${some === all ? plural(all, "variant") : `${some} of ${plural(all, "variant")}`}, ${shown.runs.length === runs.length ? plural(runs.length, "run") : `${shown.runs.length} of ${plural(runs.length, "run")}`} shown`;
    const picked = filters.filter((factor) => selections.get(factor).size);
    $("picked").replaceChildren(...picked.map((factor) => {
      const words = [...selections.get(factor)].map((at) => factor.words[at]);
      return make("button", { type: "button", class: "pick", title: "Take this filter away", "aria-label": `Take away the filter ${factor.name}: ${words.join(", ")}`, onclick: () => { Address.set({ [factor.key]: [] }); $("summary").focus(); } },
        make("bdi", {}, `${factor.name}: ${words.length > 3 ? `${words.length} values` : words.join(", ")}`), make("span", { "aria-hidden": "true" }, "×"));
    }));
    $("clear").hidden = !picked.length;
  }

  function counts() {
    const of = (factor, item, tally) => { const at = factor.of(item); if (at >= 0) tally[at] += 1; };
    for (const factor of filters) {
      const tally = factor.words.map(() => 0), chosen = selections.get(factor);
      for (const item of factor === byState ? runs : variants) if (passes(item, factor)) of(factor, item, tally);
      const rows = boxes.get(factor);
      rows.forEach((one, at) => {
        one.box.checked = chosen.has(at);
        one.count.textContent = tally[at];
        one.row.classList.toggle("none", !tally[at]);
      });
      rows.about.textContent = chosen.size ? `${chosen.size} of ${rows.length}` : "";
    }
  }

  Address.changed(() => {
    selections = new Map(filters.map((factor) => [factor, selection(factor)]));
    shown.variants = variants.filter((variant) => passes(variant));
    shown.runs = runs.filter((run) => passes(run));
    counts();
    summary();
    $("copied").textContent = "";
    $("copy-address").hidden = true;
    views.forEach((draw) => draw(false));
  });
  Look.dark.addEventListener("change", () => views.forEach((draw) => draw(true)));

  $("copy").addEventListener("click", async () => {
    const said = $("copied"), address = $("copy-address");
    try {
      await navigator.clipboard.writeText(location.href);
      said.textContent = "Copied.";
    } catch { // a page from a disk may not be allowed to
      address.hidden = false;
      address.value = location.href;
      address.focus();
      address.select();
      said.textContent = "Copy it from here:";
    }
  });
  // What is folded up would not be in print.
  let folded = [];
  window.addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; for (const one of folded) one.open = true; });
  window.addEventListener("afterprint", () => { for (const one of folded) one.open = false; folded = []; });

  const narrow = window.matchMedia("(max-width: 900px)");
  const fold = () => { $("filters").open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();

  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); // Plotly has a markup of its own
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const error = (value) => value === null || value === undefined ? "–" : value === 0 ? "0" : value >= 1e-3 && value < 100 ? String(Number(value.toPrecision(2))) : value.toExponential(1).replace("e+", "e");

  /** The colour, dash and mark of each value of `factor`; grey is for no encoding and for what is not known. Of one colour each has another dash. */
  function styleOf(factor) {
    const grey = (at) => at < 0 || factor.words[at] === NOT_SET || (factor.name === "pe" && factor.words[at] === "none") || (factor === byLabel && /^none\b/.test(factor.words[at]));
    let coloured = 0, greys = 0;
    const numbers = factor.words.map((_, at) => grey(at) ? greys++ : coloured++);
    return (at) => {
      const n = at < 0 ? 0 : numbers[at], count = factor.words.length, isGrey = grey(at);
      const dash = factor.ordered ? "solid" : Look.DASHES[Math.floor(n / (isGrey ? 1 : Look.COLOURS)) % Look.DASHES.length];
      return { colour: isGrey ? Look.colour("@0") : factor.ordered ? Look.ramp("ordered", n / Math.max(coloured - 1, 1)) : Look.colour(`@${1 + (n % Look.COLOURS)}`),
               dash, symbol: Look.SYMBOLS[Math.max(at, 0) % Look.SYMBOLS.length], text: at < 0 ? "unknown" : factor.words[at], count };
    };
  }

  return { data, variants, settings, runs, factors, byLabel, axes, one: apart && labels.length > 1 ? apart : byLabel, filtered, toggle, chosen: (factor) => selections.get(factor), passes, shown, view, select, check, yes, named, make, $, plain, percent, error, plural, styleOf, NOT_SET };
})();
