(() => {
  "use strict";
  const root = document.documentElement;
  const by = (id) => document.getElementById(id);
  const all = (what, where = document) => Array.from(where.querySelectorAll(what));

  // Theme: automatic, light or dark; kept where the browser lets a page keep something.
  const themes = { "": "automatic", light: "light", dark: "dark" };
  const kept = {
    get() { try { return localStorage.getItem("harness-theme") || ""; } catch { return ""; } },
    set(value) { try { localStorage.setItem("harness-theme", value); } catch { /* a page from a disk may keep nothing */ } },
  };
  const toggle = by("theme");
  function setTheme(name) {
    if (name) root.dataset.theme = name; else delete root.dataset.theme;
    toggle.textContent = `Theme: ${themes[name]}`;
    redraw();
  }

  // Filters.
  const form = by("filters"), count = by("count");
  const search = by("fq"), suite = by("fs"), runner = by("fr"), differ = by("fd");
  const boxes = form ? all("input[name=v]", form) : [];
  const total = count ? Number(count.dataset.all) : 0;
  let rows = null, left = null, current = "";

  function read() {
    // Once, when first asked for: a page that nobody filters does not pay for it.
    if (rows) return;
    rows = [];
    for (const section of all(".suite")) {
      for (const body of section.querySelector("table").tBodies) {
        for (const row of body.rows) {
          const cells = Array.from(row.cells).slice(1).map((c) => c.className);
          const text = (section.dataset.prefix + row.textContent).toLowerCase();
          rows.push({ row, body, section, cells, text, shown: true });
        }
      }
    }
  }

  function wanted() {
    return {
      words: search.value.toLowerCase().split(/\s+/).filter(Boolean),
      suite: suite.value,
      runner: runner && runner.value !== "" ? Number(runner.value) : null,
      differ: Boolean(differ && differ.checked),
      verdicts: new Set(boxes.filter((b) => b.checked).map((b) => b.value)),
    };
  }

  function fits(item, w, columns) {
    if (w.suite && item.section.dataset.suite !== w.suite) return false;
    if (w.differ && item.cells[item.cells.length - 1] !== "differ") return false;
    const mine = w.runner === null ? item.cells.slice(0, columns) : [item.cells[w.runner]];
    if (w.verdicts.size ? !mine.some((c) => w.verdicts.has(c)) : w.runner !== null && mine[0] === "not_run") return false;
    return w.words.every((word) => item.text.includes(word));
  }

  function filter() {
    read();
    const w = wanted();
    const columns = runner ? runner.options.length - 1 : 1;
    const bodies = new Map(), sections = new Map();
    let number = 0;
    for (const item of rows) {
      const shown = fits(item, w, columns);
      if (shown !== item.shown) { item.row.hidden = !shown; item.shown = shown; }
      if (shown) number += 1;
      bodies.set(item.body, (bodies.get(item.body) || 0) + shown);
      sections.set(item.section, (sections.get(item.section) || 0) + shown);
    }
    for (const [body, here] of bodies) { body.hidden = !here; body.style.setProperty("--rows", here); }
    for (const [section, here] of sections) section.hidden = !here;
    const whole = number === total;
    count.textContent = whole ? `${total.toLocaleString("en")} tests.`
      : `${number.toLocaleString("en")} of ${total.toLocaleString("en")} tests shown.`;
    if (!left) {
      left = document.createElement("p");
      left.className = "none-left";
      left.textContent = "No test fits. Clear the filters to see all.";
      count.after(left);
    }
    left.hidden = number > 0;
  }

  // The state of the filters, and the row that is pointed at, stand in the address after the #.
  function write(row) {
    const w = wanted(), state = new URLSearchParams();
    if (search.value.trim()) state.set("q", search.value.trim());
    if (w.suite) state.set("suite", w.suite);
    if (w.runner !== null) state.set("runner", runner.selectedOptions[0].textContent);
    if (w.differ) state.set("differ", "1");
    if (w.verdicts.size) state.set("verdict", [...w.verdicts].join(","));
    if (row) state.set("row", row);
    const text = state.toString();
    current = text ? `#${text}` : location.pathname + location.search;
    history.replaceState(null, "", current);
  }

  function restore() {
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) return point(hash, true);
    const state = new URLSearchParams(hash), verdicts = (state.get("verdict") || "").split(",");
    if (!form) return;
    search.value = state.get("q") || "";
    suite.value = state.get("suite") || "";
    if (suite.selectedIndex < 0) suite.value = "";
    if (runner) runner.value = (Array.from(runner.options).find((o) => o.value && o.textContent === state.get("runner")) || { value: "" }).value;
    if (differ) differ.checked = state.get("differ") === "1";
    for (const box of boxes) box.checked = verdicts.includes(box.value);
    filter();
    if (state.get("row")) point(state.get("row"), false);
    else by("tests").scrollIntoView();
  }

  function point(id, alone) {
    const there = id && by(id);
    if (!there) return;
    for (let d = there.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    for (const old of all(".here")) old.classList.remove("here");
    if (there.tagName !== "TR") { if (there.tagName === "DETAILS") there.scrollIntoView(); return; }
    if (alone && (there.hidden || there.closest("[hidden]"))) { form.reset(); filter(); }
    there.classList.add("here");
    there.scrollIntoView({ block: "center" });
    // Rows before it take their true heights when they come near: look again.
    requestAnimationFrame(() => {
      there.scrollIntoView({ block: "center" });
      there.querySelector("a").focus({ preventScroll: true });
    });
  }

  if (form) {
    form.hidden = false;
    let waiting = 0;
    const soon = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { filter(); write(""); }); };
    form.addEventListener("input", soon);
    form.addEventListener("reset", () => setTimeout(() => { filter(); write(""); }));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const id = link.getAttribute("href").slice(1), there = by(id);
    if (!there) return;
    const filtered = form && rows && rows.some((item) => !item.shown);
    if (there.tagName === "TR" && filtered && !there.hidden && !there.closest("[hidden]")) {
      event.preventDefault();
      write(id);
      point(id, false);
    } else if (location.hash === `#${id}`) point(id, true);
  });
  addEventListener("hashchange", restore);

  // Keys: / searches; arrows go from row to row of the matrix.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && form) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && event.target === search && search.value) {
      search.value = "";
      filter();
      write("");
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest(".m tbody th a")) {
      event.preventDefault();
      read();
      const shown = rows.filter((item) => item.shown);
      const here = shown.findIndex((item) => item.row === event.target.closest("tr"));
      const next = shown[here + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) next.row.querySelector("a").focus();
    }
  });

  // Copy buttons.
  async function copy(text) {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed here: the old way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
  for (const box of all(".cmd")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${box.textContent.slice(0, 120)}`);
    button.addEventListener("click", async () => {
      const done = await copy(box.querySelector("code").textContent);
      button.textContent = done ? "Copied" : "Select it and copy";
      button.focus();
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    box.append(button);
  }

  // Only what can scroll sideways is a stop of the Tab key.
  const sideways = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth + 1) target.tabIndex = 0; else target.removeAttribute("tabindex");
    }
  });
  for (const region of all(".scroll")) sideways.observe(region);

  // Plots, drawn when they come near, from the tables under them.
  const library = by("library"), views = new Map();
  function color(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }
  function load() {
    if (window.vegaEmbed || !library) return;
    const script = document.createElement("script");
    script.textContent = library.textContent;
    document.head.append(script);
  }
  function config() {
    const c = Object.fromEntries(["bg", "fg", "mut", "line", "red", "amb", "grn", "c1", "c2", "c3", "c4", "c5"].map((n) => [n, color(n)]));
    const font = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif";
    return {
      aria: false, background: "transparent", font,
      range: { category: [c.c1, c.c2, c.c3, c.c4, c.c5] },
      mark: { color: c.c1 }, line: { color: c.c1 }, point: { color: c.c1 }, tick: { color: c.c1 },
      boxplot: { box: { color: c.c1, fillOpacity: 0.35 }, rule: { color: c.mut }, median: { color: c.fg } },
      axis: { labelColor: c.fg, titleColor: c.mut, titleFontWeight: 500, gridColor: c.line, gridOpacity: 0.7, domainColor: c.mut, tickColor: c.mut, labelFontSize: 11, titleFontSize: 11, titleLimit: 260 },
      axisXQuantitative: { tickCount: { signal: "ceil(width / 90)" } },
      legend: { labelColor: c.fg, labelFontSize: 11.5, symbolStrokeWidth: 2, symbolSize: 220 },
      view: { stroke: null },
      style: {
        "mark-note": { stroke: c.red, color: c.red, strokeWidth: 1.3 }, "text-note": { limit: 420, fill: c.red, color: c.red, fontSize: 11.5 },
        "area-envelope": { fill: c.grn, color: c.grn, fillOpacity: 0.16 }, "line-envelope": { stroke: c.grn, color: c.grn, strokeWidth: 1.2 },
        "rect-band": { fill: c.mut, color: c.mut, fillOpacity: 0.18 }, "mark-interval": { stroke: c.c2, color: c.c2 },
        "point-middle": { fill: c.c2, color: c.c2 }, "mark-level": { stroke: c.c2, color: c.c2 },
      },
    };
  }
  function values(figure) {
    const table = figure.querySelector(".data table"), heads = Array.from(table.tHead.rows[0].cells);
    const value = (text) => (text !== "" && isFinite(text) ? Number(text) : null);
    const found = [];
    for (const row of table.tBodies[0].rows) {
      const fields = {}, longs = [];
      heads.forEach((head, n) => {
        const text = row.cells[n].textContent, name = head.dataset.f;
        if (name) fields[name] = name === "x" || name === "v" ? value(text) : text;
        else if (head.dataset.k) for (const part of text.split(" ")) if (part !== "") longs.push({ k: head.dataset.k, s: head.textContent, y: value(part) });
      });
      if (longs.length) for (const long of longs) found.push({ ...fields, ...long });
      else found.push(fields);
    }
    return found;
  }
  async function draw(figure) {
    load();
    if (!window.vegaEmbed) return;
    const specs = JSON.parse(figure.querySelector("script").textContent), plots = all(".plot", figure);
    const data = values(figure), look = config();
    for (let n = 0; n < specs.length; n += 1) {
      const old = views.get(plots[n]);
      if (old) old.finalize();
      const spec = { ...specs[n], datasets: { table: data } };
      // The plot has its name as one picture: its parts are for the eye alone.
      const inner = document.createElement("div");
      inner.setAttribute("aria-hidden", "true");
      plots[n].replaceChildren(inner);
      try {
        const made = await window.vegaEmbed(inner, spec, {
          mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, config: look,
          tooltip: { disableDefaultStyle: true },
        });
        views.set(plots[n], made);
      } catch (error) {
        plots[n].textContent = "This plot could not be drawn; its numbers are in the table.";
        console.error(error);
      }
    }
    figure.dataset.drawn = root.dataset.theme || "";
  }
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !entry.target.dataset.busy) {
      near.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "300px" });
  const figures = all("figure.chart");
  function watch() {
    if (library) for (const figure of figures) { figure.classList.add("drawable"); near.observe(figure); }
  }
  function redraw() {
    for (const figure of figures) if (figure.dataset.drawn !== undefined) { delete figure.dataset.drawn; near.unobserve(figure); near.observe(figure); }
  }

  // On paper everything is open, but for the tables of plots that are drawn.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])").filter((d) => !(d.classList.contains("data") && d.closest("figure").dataset.drawn !== undefined));
    for (const d of closed) d.open = true;
  });
  addEventListener("afterprint", () => { for (const d of closed) d.open = false; closed = []; });

  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const names = Object.keys(themes), next = names[(names.indexOf(root.dataset.theme || "") + 1) % names.length];
    kept.set(next);
    setTheme(next);
  });
  setTheme(kept.get() in themes ? kept.get() : "");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  watch();
  if (window.requestIdleCallback && form) requestIdleCallback(read);
  if (location.hash) addEventListener("load", restore, { once: true });
})();
