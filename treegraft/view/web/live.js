// A run while it decodes: its text, the tokens of each round, and the tree of the last one. Parts that stay are kept, so
// that nothing flickers.

class Live {
  constructor(root) {
    Object.assign(this, { root, chunks: [], bars: [] });
    const part = (name, attributes = {}) => (this[name] = element("div", { class: `tg-${name}`, ...attributes }));
    root.classList.add("tg-player", "tg-live");
    this.lane = new Lane();
    root.replaceChildren(
      part("figures", { hidden: "" }),
      element("div", { class: "tg-lanes" },
        element("section", { class: "tg-lane" }, (this.heading = element("h3", { hidden: "" })),
          part("text", { role: "log", "aria-label": "Output text", tabindex: 0 })),
        this.lane.box),
      element("div", { class: "tg-roundbox" },
        (this.roundName = element("span", { class: "tg-round-name" })),
        part("rounds", { role: "img", "aria-label": "Tokens written by each round" })),
      part("summary"), part("stage", { tabindex: 0, role: "group", "aria-label": "Draft tree of the last round" }), part("key"));
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.stage);
    this.theme();
  }

  theme() {
    this.root.dataset.theme = isDark(getComputedStyle(this.root).getPropertyValue("--st-background-color")) ? "dark" : "light";
  }

  destroy() {
    this.watch.disconnect();
    this.lane.stop();
  }

  // What stands around the run: a heading above its text, large figures, the lane of plain decoding.
  frame({ large, figures, heading, race, lane }) {
    this.root.classList.toggle("tg-large", large);
    this.heading.textContent = heading;
    this.heading.hidden = !race;
    this.lane.show(race, lane);
    this.figures.hidden = !large;
    this.figures.replaceChildren(...figures.map(([name, value, help]) => element("div", { title: help },
      element("strong", {}, value), element("span", {}, name))));
  }

  // Words instead of a run: there is no round yet.
  wait(words) {
    Object.assign(this, { view: null, scene: null, chunks: [], bars: [] });
    for (const box of [this.rounds, this.summary, this.roundName, this.key]) box.replaceChildren();
    this.text.replaceChildren(element("span", { class: "tg-quiet" }, words));
    this.stage.replaceChildren();
    this.root.dataset.waiting = "";
  }

  update(view) {
    const grown = this.view && view.first >= this.view.first && view.text_from === this.view.text_from;
    if (!grown) this.wait("");
    const newRound = !grown || view.first !== this.view.first;
    delete this.root.dataset.waiting;
    this.view = view;
    this.showText(view.text, grown);
    this.showBars(view.written);
    if (!newRound) return;
    const round = view.rounds[0];
    this.roundName.replaceChildren("Round ", element("strong", {}, `${round.index}`));
    this.summary.replaceChildren(...summaryLine(view, round));
    this.key.replaceChildren(...keyLine(view, round));
    this.draw();
  }

  // Chunks that are as they were stay; a character that was split may change the last one.
  showText(text, grown) {
    const atEnd = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 40;
    if (!grown) this.text.replaceChildren(...(this.view.text_from > 0 ? [element("span", { class: "tg-cut" }, "… ")] : []));
    text.forEach((tokens, place) => {
      const words = JSON.stringify(tokens), known = this.chunks[place];
      if (known && known.words === words) return;
      const made = element("span", { class: `tg-chunk${grown ? " tg-fresh" : ""}` }, tokens.map(tokenParts));
      if (known) known.made.replaceWith(made);
      else this.text.append(made);
      this.chunks[place] = { words, made };
    });
    if (atEnd || !grown) this.text.scrollTop = this.text.scrollHeight;
  }

  showBars(written) {
    this.rounds.style.setProperty("--most", Math.max(...written, 3));
    for (const drafted of written.slice(this.bars.length)) {
      const bar = element("span", { class: "tg-bar", title: `${drafted} drafted + 1` },
        element("span", { class: "tg-bar-own" }), element("span", { class: "tg-bar-drafted", style: `--n:${drafted}` }));
      this.bars.push(bar);
      this.rounds.append(bar);
    }
    this.rounds.scrollLeft = this.rounds.scrollWidth;
  }

  draw() {
    const round = this.view.rounds[0], { clientWidth, clientHeight } = this.stage;
    this.drawnWidth = clientWidth;
    this.canvas ||= new Canvas();
    this.scene = new Scene(this.view, round, this.canvas, { opened: new Set(), allLabels: false, width: clientWidth - 2,
      height: clientHeight - 2, best: clientWidth < 560 ? 4 : 8, measure: (this.ruler ||= rulerOf(this.root)) });
    this.scene.svg.setAttribute("aria-label", plain(sentence(this.view, round.say)));
    this.scene.show(round.events.length - 1);
    if (this.scene.svg.parentNode !== this.stage) this.stage.replaceChildren(this.scene.svg);
    this.stage.scrollTop = this.middle() - this.stage.clientHeight / 2;
  }

  // The middle of what was accepted if all of it fits into sight, else its tip.
  middle() {
    const walk = this.scene.items.filter((item) => item.kind === "bonus" || "accepted root".includes(item.fate));
    const rows = walk.map((item) => item.y), top = Math.min(...rows), bottom = Math.max(...rows);
    return bottom - top < this.stage.clientHeight - 2 * MARGIN ? (top + bottom) / 2 : walk[walk.length - 1].y;
  }

  resized() {
    if (this.scene && this.stage.clientWidth !== this.drawnWidth) this.draw();
  }
}

// The space before a round's first token is set apart, so that no underline starts in the gap.
function tokenParts([word, kind], place) {
  const space = place === 0 ? word.match(/^\s*/)[0] : "";
  return [space, element("span", { class: `tg-token tg-token-${kind}`, title: TOKEN_WORDS[kind] }, word.slice(space.length))];
}

function keyLine(view, round) {
  const fates = ["accepted", "bonus", ...(round.parent.length > 1 ? ["rejected", "unreached", "pruned"] : []),
    ...(round.fate.includes("d") ? ["discarded"] : [])];
  return [element("ul", { class: "tg-legend" },
    fates.map((fate) => element("li", {}, marker(fate === "bonus" ? -1 : 0, fate), element("span", {}, FATE_WORDS[fate]))),
    view.drafters.map((drafter) => element("li", {}, edgeSample(drafter.id), element("span", {}, `by ${drafter.name}`))),
    graftersOf(view, round).map((drafter) => element("li", {}, graftSample(drafter.id), element("span", {}, `grafted by ${drafter.name}`))))];
}

const mounted = new WeakMap();

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".tg-root");
  if (!mounted.has(root)) mounted.set(root, { live: new Live(root) });
  const state = mounted.get(root);
  state.live.theme();
  state.live.frame(data);
  if (data.view !== state.text || data.words !== state.words) {
    if (data.view) state.live.update(JSON.parse(data.view));
    else state.live.wait(data.words);
    Object.assign(state, { text: data.view, words: data.words });
  }
  return () => mounted.get(root)?.live.destroy();
}
