// The text of several runs as a table that scrolls sideways: a row a run, a column an output position. All text reaches
// the page through text nodes.

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function legend(view) {
  return make("ul", { class: "tg-strip-legend", "aria-label": "Signs" }, ...view.legend.map((one) => {
    const sign = make("span", { "aria-hidden": "true" }, one.sign);
    sign.style.color = one.color;
    return make("li", {}, sign, ` ${one.name}`);
  }));
}

function cell(view, row, number) {
  const found = row.cells[number];
  const place = view.first + number;
  if (!found) return make("td", { class: "tg-strip-none", "data-place": place, title: "This text ends before." }, "");
  const [text, writer, depth, begins, other, said] = found;
  const by = view.legend[writer];
  const sign = make("span", { class: "tg-strip-sign" }, `${by.sign}${depth || ""}`);
  const made = make("td", { "data-place": place, title: said,
    class: `${begins ? "tg-strip-begins" : ""} ${other ? "tg-strip-other" : ""}` },
  make("span", { class: "tg-strip-text" }, text), sign);
  made.style.setProperty("--by", by.color);
  return made;
}

function positions(view) {
  const numbers = view.rows[0].cells.map((_, number) => view.first + number);
  return make("tr", {}, make("th", { scope: "col" }, "Position"), ...numbers.map((place) =>
    make("th", { scope: "col", "data-place": place, class: place % 5 && place !== view.apart ? "tg-strip-minor" : undefined,
      title: place === view.apart ? "The texts differ from here on." : undefined },
    place === view.apart ? `${place} ≠` : String(place))));
}

function draw(view) {
  const rows = view.rows.map((row) => make("tr", {}, make("th", { scope: "row", title: row.name }, row.name),
    ...row.cells.map((_, number) => cell(view, row, number))));
  return make("div", { class: "tg-strip-scroll", tabindex: "0", role: "region",
    "aria-label": "Who wrote each token. Click a token, or use the left and right keys, to go there." },
  make("table", {}, make("thead", {}, positions(view)), make("tbody", {}, ...rows)));
}

function mark(root, position) {
  for (const old of root.querySelectorAll(".tg-strip-here")) old.classList.remove("tg-strip-here");
  const here = [...root.querySelectorAll(`[data-place="${position}"]`)];
  for (const one of here) one.classList.add("tg-strip-here");
  const frame = root.querySelector(".tg-strip-scroll");
  if (!here.length) return;
  const [left, width, head] = [here[0].offsetLeft, here[0].offsetWidth, frame.querySelector("th").offsetWidth];
  if (left < frame.scrollLeft + head || left + width > frame.scrollLeft + frame.clientWidth) {
    frame.scrollLeft = left - head - (frame.clientWidth - head) / 2;
  }
}

const known = new WeakMap();

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".tg-strip");
  const state = known.get(root) ?? {};
  known.set(root, state);
  state.position = data.position;
  if (state.drawn !== data.view) {
    state.drawn = data.view;
    const view = JSON.parse(data.view);
    root.style.setProperty("--apart", view.colors.rejected);
    root.style.setProperty("--here", view.colors.accent);
    root.replaceChildren(legend(view), draw(view));
    const go = (place) => setTriggerValue("go", place);
    root.querySelector("tbody").addEventListener("click", (event) => {
      const place = event.target.closest("[data-place]")?.dataset.place;
      if (place !== undefined) go(Number(place));
    });
    root.querySelector(".tg-strip-scroll").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      go(state.position + step);
    });
  }
  mark(root, data.position);
}
