/* Tables that may have a thousand rows: those in view are made first, the others when one scrolls to them. */
(() => {
  const { data, variants, settings, runs, shown, factors, make, $, error, plural, NOT_SET } = Explorer;
  const CHUNK = 60;

  /** Fills `body` with the rows that `build` makes of `items`, chunk by chunk. */
  function lazily(body, build) {
    let items = [], done = 0;
    const more = () => { body.append(...items.slice(done, done + CHUNK).map(build)); done += CHUNK; if (done < items.length) watcher.observe(body.lastElementChild); };
    const watcher = new IntersectionObserver((entries) => { for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); more(); } }, { rootMargin: "800px" });
    window.addEventListener("beforeprint", () => { while (done < items.length) more(); });
    return (next) => { watcher.disconnect(); items = next; done = 0; body.replaceChildren(); more(); };
  }

  const number = (value, digits = 1) => value === null || value === undefined ? "–" : (100 * value).toFixed(digits);
  const tag = (kind, word) => make("span", { class: `${kind} ${word.replace(/ /g, "-")}` }, word);

  // --- symmetries
  if (variants.some((variant) => variant.symmetry)) {
    const actions = Object.entries(data.actions).filter(([action]) => variants.some((variant) => variant.symmetry && variant.symmetry.actions[action]));
    const heads = ["variant", "fp32", "fp64, untrained", "fp64", "÷ ‖f(x) − f(x′)‖", "changes", ...actions.map(([, words]) => words)];
    $("symmetry-table").append(
      make("caption", { class: "unseen" }, "Equivariance errors of the variants that pass the filters"),
      make("thead", {}, make("tr", {}, ...heads.map((head, at) => make("th", { scope: "col", class: at && at < 6 ? "num" : null }, head)))),
      make("tbody", {}));
    const several = settings.length > 1, brief = settings.map((setting) => `${setting.task}, ${setting.about}`);
    const nameOf = (at) => brief.indexOf(brief[at]) === brief.lastIndexOf(brief[at]) ? brief[at] : settings[at].title;
    const fill = lazily($("symmetry-table").tBodies[0], (variant) => {
      const { errors, difference, flips, actions: found } = variant.symmetry, [single, before, after] = errors || [null, null, null];
      return make("tr", {},
        make("th", { scope: "row" }, make("bdi", {}, variant.label), several ? make("small", {}, nameOf(variant.setting)) : null),
        ...[single, before, after, difference].map((value) => make("td", { class: "num" }, error(value))),
        make("td", { class: "num" }, flips === null ? "–" : `${(100 * flips).toFixed(0)} %`),
        ...actions.map(([action]) => {
          if (!found[action]) return make("td", {}, "–");
          const [measured, size, verdict] = found[action];
          return make("td", {}, make("span", { class: `tag ${{ holds: "good", fails: "plain" }[measured] || ""}` }, measured), make("small", {}, error(size)), verdict.startsWith("against") ? make("small", { class: "bad" }, verdict) : null);
        }));
    });
    Explorer.view([], () => {
      const items = shown.variants.filter((variant) => variant.symmetry);
      fill(items);
      $("symmetry-note").textContent = items.length ? "" : "No variant with a measured symmetry passes the filters.";
    });
  } else $("symmetries").hidden = true;

  // --- all runs
  const known = settings.length === 1 ? settings[0].longest : null;
  const figure = (at) => (run) => { const figures = figuresOf(run); return figures ? figures[at] : null; };
  function figuresOf(run) {
    const measure = Address.get("measure")[0], setting = run.variant ? settings[run.variant.setting] : null;
    return setting ? run.figures[setting.measures[measure]] || run.figures[Object.keys(run.figures)[0]] || null : null;
  }
  const measured = runs.some((run) => Object.keys(run.figures).length), errors = runs.some((run) => run.error !== null);
  const choices = factors.filter((factor) => factor.key !== "steps").map((factor) => ({
    key: factor.key, head: factor.name, num: factor.values.some((value) => typeof value === "number"), value: (run) => { const at = factor.of(run); return at < 0 ? null : factor.values[at]; },
    cell: (run) => { const at = factor.of(run), value = at < 0 ? null : factor.values[at]; return make("td", { class: typeof value === "number" ? "num" : null }, make("bdi", {}, at < 0 ? NOT_SET : factor.words[at])); },
  }));
  const columns = [
    { key: "run", head: "run", value: (run) => run.run, cell: (run) => make("th", { scope: "row" }, make("code", {}, make("bdi", {}, run.run)), run.why ? make("small", { class: "why" }, run.why) : null) },
    { key: "state", head: "state", value: (run) => run.state, cell: (run) => make("td", {}, tag("state", run.state)) },
    ...choices.slice(0, 3),
    { key: "seed", head: "seed", num: true, value: (run) => run.seed, cell: (run) => make("td", { class: "num" }, run.seed === null ? "–" : String(run.seed)) },
    ...(measured ? [
      { key: "trained", head: "trained, %", num: true, best: true, value: figure(0), cell: (run) => make("td", { class: "num" }, number(figure(0)(run))) },
      { key: "longest", head: known ? `at ${known}, %` : "at longest, %", num: true, best: true, value: figure(1), cell: (run) => make("td", { class: "num" }, number(figure(1)(run))) },
      { key: "reach", head: "reach", num: true, best: true, value: figure(2), cell: (run) => make("td", { class: "num" }, figure(2)(run) === null ? "–" : `${figure(3)(run) ? "≥ " : ""}${figure(2)(run)}`) },
    ] : []),
    ...(errors ? [{ key: "error", head: "equiv. error", num: true, value: (run) => run.error, cell: (run) => make("td", { class: "num" }, error(run.error)) }] : []),
    { key: "steps", head: "steps", num: true, value: (run) => run.steps, cell: (run) => make("td", { class: "num" }, run.steps === null ? "–" : run.steps === run.of || run.of === null ? String(run.steps) : `${run.steps} of ${run.of}`) },
    ...choices.slice(3),
  ].filter((column, at, all) => all.findIndex((other) => other.key === column.key) === at);

  Address.field("sort", ["run"], (value) => columns.some((column) => column.key === value.replace(/^-/, "")));
  Address.field("find", [""], () => true);
  const search = $("find");
  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => Address.set({ find: [search.value] }, true), 150); });
  Address.changed(() => { if (document.activeElement !== search) search.value = Address.get("find")[0]; });

  const heads = columns.map((column) => {
    const button = make("button", { type: "button", onclick: () => {
      const [now] = Address.get("sort"), down = `-${column.key}`;
      Address.set({ sort: [now === column.key ? down : now === down ? column.key : column.best ? down : column.key] });
    } }, column.head, make("span", { class: "arrow", "aria-hidden": "true" }));
    return make("th", { scope: "col", class: column.num ? "num" : null, "data-key": column.key }, button);
  });
  $("run-table").append(make("caption", { class: "unseen" }, "All runs; the buttons in the header sort"), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}));

  const words = new Intl.Collator("en", { numeric: true });
  function compare(a, b) { // numbers before words
    const [one, other] = [typeof a === "number", typeof b === "number"];
    return one && other ? a - b : one !== other ? (one ? -1 : 1) : words.compare(String(a), String(b));
  }
  function sorted(items) {
    const [sort] = Address.get("sort"), down = sort.startsWith("-"), column = columns.find((one) => one.key === (down ? sort.slice(1) : sort));
    const keyed = items.map((run, at) => [column.value(run), at, run]), none = (value) => value === null || value === undefined;
    // What has no figure stands last in either direction; equal ones keep their order.
    keyed.sort((a, b) => none(a[0]) || none(b[0]) ? none(a[0]) - none(b[0]) || a[1] - b[1] : (down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
    return keyed.map(([, , run]) => run);
  }
  Address.changed(() => {
    const [sort] = Address.get("sort");
    for (const head of heads) head.setAttribute("aria-sort", sort === head.dataset.key ? "ascending" : sort === `-${head.dataset.key}` ? "descending" : "none");
  });
  const texts = new Map(runs.map((run) => [run, [run.run, run.state, run.why, run.variant ? run.variant.label : "", ...factors.map((factor) => factor.words[factor.of(run)] ?? "")].join(" ").toLowerCase()]));
  const fill = lazily($("run-table").tBodies[0], (run) => make("tr", {}, ...columns.map((column) => column.cell(run))));
  Explorer.view(["sort", "find", "measure"], () => {
    const wanted = Address.get("find")[0].toLowerCase().split(/\s+/).filter(Boolean), items = sorted(shown.runs.filter((run) => wanted.every((part) => texts.get(run).includes(part))));
    fill(items);
    $("run-scroll").scrollTop = 0;
    const bad = items.filter((run) => run.state !== "done").length;
    $("run-count").textContent = `${items.length === runs.length ? plural(items.length, "run") : `${items.length} of ${plural(runs.length, "run")}`}${bad ? `, ${bad} not done` : ""}.`;
  });

  Address.start();
})();
