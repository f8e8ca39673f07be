/* Every choice on the page, kept in the address: #anchor&pe=rotary,alibi&colour=norm&sort=-reach. */
const Address = (() => {
  const fields = new Map(); // key -> {initial: values, allows: value -> boolean}
  const listeners = [];
  let chosen = new Map(), anchor = "", ignored = [];

  const encode = (text) => encodeURIComponent(text).replace(/%20/g, "+").replace(/%(3D|2F|3A|40|5B|5D)/g, decodeURIComponent);
  const decode = (text) => decodeURIComponent(text.replace(/\+/g, " "));
  const same = (one, other) => one.length === other.length && one.every((value, at) => value === other[at]);

  /** Makes `key` known. `initial` is what holds where the address says nothing; `allows` tells what it may hold. */
  function field(key, initial, allows) { fields.set(key, { initial, allows }); }

  const get = (key) => chosen.get(key) || fields.get(key).initial;

  function text() {
    const parts = [...chosen].map(([key, values]) => `${encode(key)}=${values.map(encode).join(",")}`);
    return [anchor && encode(anchor), ...parts].filter(Boolean).join("&");
  }

  /** Sets some choices at once; with `quietly` the present entry of the history is replaced. */
  function set(changes, quietly = false) {
    for (const [key, values] of Object.entries(changes)) {
      if (same(values, fields.get(key).initial)) chosen.delete(key); else chosen.set(key, values);
    }
    ignored = [];
    write(quietly);
    notify();
  }

  function write(quietly) {
    const address = `#${text()}`;
    if (address === (location.hash || "#")) return;
    if (quietly) history.replaceState(null, "", address); else history.pushState(null, "", address);
  }

  function read() {
    chosen = new Map(); anchor = ""; ignored = [];
    location.hash.slice(1).split("&").filter(Boolean).forEach((piece, at) => {
      const split = piece.indexOf("=");
      try {
        if (split < 0) {
          const name = decode(piece);
          if (at === 0 && document.getElementById(name)) anchor = name; else ignored.push(name);
          return;
        }
        const key = decode(piece.slice(0, split)), values = piece.slice(split + 1).split(",").map(decode), known = fields.get(key);
        const kept = known ? values.filter(known.allows) : [];
        if (kept.length) chosen.set(key, kept);
        if (!known) ignored.push(key); else for (const value of values) if (!known.allows(value)) ignored.push(`${key}=${value}`);
      } catch (error) {
        if (!(error instanceof URIError)) throw error;
        ignored.push(piece);
      }
    });
  }

  function notify() {
    const notice = document.getElementById("address-notice");
    notice.hidden = !ignored.length;
    notice.textContent = ignored.length ? `Not on this page, and ignored in the address: ${ignored.join("; ")}` : "";
    listeners.forEach((listener) => listener());
  }

  function go(id) {
    const target = document.getElementById(id);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    target.scrollIntoView();
    if (target.tabIndex < 0) target.tabIndex = -1;
    target.focus({ preventScroll: true });
  }

  /** Once every field is known: takes up the address, then follows it. */
  function start() {
    const follow = () => {
      if (location.hash.slice(1) === text() && !ignored.length) return;
      read();
      notify();
      if (anchor) go(anchor);
    };
    read();
    notify();
    if (anchor && chosen.size) go(anchor); // without choices the browser has gone there by itself
    window.addEventListener("hashchange", follow);
    window.addEventListener("popstate", follow);
    document.addEventListener("click", (event) => {
      const link = event.target.closest && event.target.closest("a[href^='#']");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const [id, ...choices] = link.getAttribute("href").slice(1).split("&");
      event.preventDefault();
      if (choices.length) { // a link to a view: its choices come in place of the present ones
        history.pushState(null, "", link.getAttribute("href"));
        follow();
        return;
      }
      anchor = id; // a link to a place: the choices stay
      write(false);
      go(id);
    });
  }

  return { field, get, set, start, text, changed: (listener) => listeners.push(listener) };
})();
