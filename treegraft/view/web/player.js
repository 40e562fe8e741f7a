// The player: one round at a time, one event at a time. `mount` draws it into `root` and returns its handle.
//
// hooks: start        place to open at, {round, event, node}, all optional
//        place(at)    called when the place has changed, after a moment of rest
//        window(n)    asks for rounds from number n on; the answer comes through `update`
//        save         more items of the save menu, [{label, act}]
//        compact      leaves out heading, text and rounds, and hears keys only while it has the focus

const STEP_MILLISECONDS = 700;
const REST_MILLISECONDS = 200;

function mount(root, view, hooks = {}) {
  const player = new Player(root, view, hooks);
  return { update: (next) => player.update(next), destroy: () => player.destroy(), player };
}

// Scrolls the stage until an item is inside it, if it is not.
function reveal(stage, { x, y, width }) {
  const inside = (from, to, start, size) => from >= start && to <= start + size;
  if (!inside(y - 12, y + 12, stage.scrollTop, stage.clientHeight)) stage.scrollTop = y - stage.clientHeight / 2;
  if (!inside(x - 12, x + width + 12, stage.scrollLeft, stage.clientWidth)) stage.scrollLeft = x - stage.clientWidth / 2;
}

// Where a recording opens: the round that accepted the most.
function bestRound(view) {
  const most = Math.max(...view.rounds.map((round) => round.accepted));
  return view.first + view.rounds.findIndex((round) => round.accepted === most);
}

class Player {
  constructor(root, view, hooks) {
    Object.assign(this, { root, hooks, at: { round: -1, event: 0 }, pinned: null, hovered: null,
      opened: new Map(), allLabels: false, timer: null, wish: null, widths: new Map() });
    this.stops = new AbortController();
    this.build();
    this.listen();
    this.theme();
    this.update(view, hooks.start || {});
  }

  build() {
    const button = (words, keys, act, content) => element("button", {
      class: "tg-icon", title: `${words} (${keys})`, "aria-label": words, "aria-keyshortcuts": keys, onclick: act }, content);
    const part = (name, attributes = {}) => (this[name] = element("div", { class: `tg-${name}`, ...attributes }));
    this.playButton = button("Play", "Space", () => this.play(!this.timer), "");
    this.controls = element("div", { class: "tg-controls" },
      button("Previous round", "Shift+Left", () => this.stepRound(-1), icon("first")),
      button("Previous event", "Left", () => this.step(-1), icon("back")),
      this.playButton,
      button("Next event", "Right", () => this.step(1), icon("next")),
      button("Next round", "Shift+Right", () => this.stepRound(1), icon("last")));
    this.jumps = element("div", { class: "tg-jumps" });
    this.tools = element("div", { class: "tg-tools" },
      button("Whole tree", "F", () => this.toggleWhole(), icon("whole")),
      button("Keys", "?", () => this.help(), "?"), this.saveMenu());
    this.words = element("div", { class: "tg-words" }, part("summary"), part("event", { "aria-live": "polite" }));
    part("stage", { tabindex: 0, role: "group", "aria-label": "Draft tree" });
    part("side", { role: "complementary", "aria-label": "Details" });
    part("tip", { role: "tooltip", hidden: true });
    part("toast", { role: "status" });
    part("said", { "aria-live": "polite" });
    this.root.classList.add("tg-player");
    this.root.classList.toggle("tg-compact", Boolean(this.hooks.compact));
    this.root.replaceChildren(part("heading"), part("textbox"), part("roundbox"),
      element("div", { class: "tg-bar-row" }, this.controls, part("eventbox"), this.tools), this.words,
      element("div", { class: "tg-main" }, element("div", { class: "tg-frame" }, this.stage, this.tip), this.side), this.toast, this.said);
    this.play(false);
  }

  jumpButton(kind, key) {
    return element("button", { class: "tg-button tg-jump", title: `Next ${kind} (${key})`, "aria-keyshortcuts": key,
      onclick: () => this.jump(kind) }, `Next ${kind} `, element("kbd", {}, key));
  }

  saveMenu() {
    const entry = (label, act) => element("button", { role: "menuitem", onclick: () => { menu.open = false; act(); } }, label);
    const menu = element("details", { class: "tg-menu" },
      element("summary", { class: "tg-icon", title: "Save or share", "aria-label": "Save or share" }, icon("save")),
      element("div", { role: "menu" },
        entry("Tree as PNG", () => savePng(this.picture(), this.fileName())),
        entry("Tree as SVG", () => saveSvg(this.picture(), this.fileName())),
        (this.hooks.save || []).map(({ label, act }) => entry(label, () => act(this)))));
    return (this.menu = menu);
  }

  listen() {
    const { signal } = this.stops;
    window.addEventListener("keydown", (event) => onKey(this, event), { capture: true, signal });
    document.addEventListener("pointerdown", (event) => {
      if (!event.composedPath().includes(this.menu)) this.menu.open = false;
    }, { signal });
    this.stage.addEventListener("pointermove", (event) => this.hover(this.under(event), event));
    this.stage.addEventListener("pointerleave", () => this.hover(null));
    this.stage.addEventListener("click", (event) => this.choose(this.under(event)?.id ?? null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.theme(), { signal });
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.stage);
  }

  destroy() {
    this.play(false);
    clearTimeout(this.resting);
    this.stops.abort();
    this.watch.disconnect();
  }

  theme() {
    this.root.dataset.theme = isDark(getComputedStyle(this.root).getPropertyValue("--st-background-color")) ? "dark" : "light";
  }

  // New data: another run, or another window of the same run.
  update(view, start = null) {
    const same = this.view && this.view.key === view.key;
    this.view = view;
    if (!same) this.opened = new Map();
    this.heading.replaceChildren(...heading(view));
    if (!view.rounds.length) return this.empty();
    this.text = new TextMap(view, (round, node) => this.go(round, null, node));
    this.rounds = new RoundTrack(view, (round) => this.go(round));
    this.jumps.replaceChildren(...[["rejection", "R"], ["call", "C"], ["graft", "G"]]
      .filter(([kind]) => findNext(view, kind, { round: -1, event: -1 })).map(([kind, key]) => this.jumpButton(kind, key)));
    this.textbox.replaceChildren(this.text.root);
    this.roundbox.replaceChildren(this.roundName = element("span", { class: "tg-round-name" }), this.rounds.root, this.jumps);
    this.scene = this.shownRound = null;
    this.root.style.setProperty("--tg-tallest", `${Math.round(tallest(view))}px`);
    const at = this.wish || start || (same ? this.at : {});
    this.wish = null;
    if (at.jump) this.jump(at.jump, { round: at.round, event: -1 });
    else this.go(at.round ?? bestRound(view), at.event ?? null, at.node ?? (same ? this.pinned : null));
  }

  empty() {
    this.stage.replaceChildren(element("p", { class: "tg-quiet" }, "This recording has no rounds yet."));
    this.side.replaceChildren();
    for (const box of [this.textbox, this.roundbox, this.eventbox, this.summary, this.event]) box.replaceChildren();
  }

  get round() {
    return this.view.rounds[this.at.round - this.view.first];
  }

  get lastRound() {
    return this.view.first + this.view.rounds.length - 1;
  }

  // Goes to a round (any number is brought into range), to one of its events (default: what was accepted), to a node.
  go(round, event = null, node = null) {
    if (Number.isFinite(round) && (round < this.view.first || round > this.lastRound)) {
      const wanted = Math.min(Math.max(round, 0), this.view.total - 1);
      if (wanted !== Math.min(Math.max(wanted, this.view.first), this.lastRound)) return this.ask({ round: wanted, event, node });
    }
    const number = Math.min(Math.max(round, this.view.first), this.lastRound);
    const changed = number !== this.at.round || !this.scene;
    this.at.round = number;
    const last = this.round.events.length - 1;
    this.at.event = Math.min(Math.max(event ?? lastOf(this.round, "accept"), 0), last);
    if (changed) this.openRound(node);
    else if (node !== null) this.pinned = node;
    this.show();
  }

  ask(wish) {
    if (!this.hooks.window) return;
    this.wish = wish;
    this.say("Loading rounds …");
    this.hooks.window(Math.max(0, wish.round - (wish.round < this.view.first ? this.view.rounds.length - 8 : 8)));
  }

  openRound(node) {
    this.pinned = node;
    this.track = new EventTrack(this.view, this.round, (event) => this.go(this.at.round, event));
    this.eventbox.replaceChildren(this.track.root);
    this.draw();
    this.scrollToPath();
  }

  draw() {
    this.size ||= { width: this.stage.clientWidth, height: this.stage.clientHeight };
    const { width, height } = this.size;
    this.scene = new Scene(this.view, this.round, {
      opened: this.opened.get(this.at.round) || new Set(), allLabels: this.allLabels, width: width - 2,
      height: height - 2, best: width < 560 ? 6 : 16, measure: (text) => this.measure(text) });
    this.scene.svg.setAttribute("aria-label", plain(sentence(this.view, this.round.say)));
    this.stage.replaceChildren(this.scene.svg);
    if (!this.scene.byId.has(this.pinned)) this.revealPinned();
  }

  // A pinned node inside a stub opens the stub; anything else that is not drawn is let go.
  revealPinned() {
    const opened = this.opened.get(this.at.round) || new Set();
    const number = this.round.stubs.findIndex(([, , , nodes], place) => nodes.includes(this.pinned) && !opened.has(place));
    if (number < 0) this.pinned = null;
    else this.openStub(number);
  }

  openStub(number) {
    const opened = this.opened.get(this.at.round) || new Set();
    this.opened.set(this.at.round, opened.add(number));
    this.draw();
  }

  measure(text) {
    this.ruler ||= document.createElement("canvas").getContext("2d");
    if (!this.ruler.ready) {
      this.ruler.font = `600 12.5px ${getComputedStyle(this.root).fontFamily}`;
      this.ruler.ready = true;
    }
    if (!this.widths.has(text)) this.widths.set(text, this.ruler.measureText(text).width);
    return this.widths.get(text);
  }

  // Before the next paint, when the layout has to be known anyway.
  scrollToPath() {
    const rows = this.scene.items.filter((item) => item.kind === "bonus" || "accepted root".includes(item.fate)).map((item) => item.y);
    const middle = (Math.min(...rows) + Math.max(...rows)) / 2;
    requestAnimationFrame(() => this.stage.scrollTo(0, middle - this.size.height / 2));
  }

  // The observer knows the size, so that drawing need not ask for it, which would cost a layout.
  resized() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    const wider = !this.size || width !== this.size.width;
    this.size = { width, height };
    if (!this.scene || !wider) return;
    this.draw();
    this.show();
  }

  show() {
    const { round, event } = this.at;
    this.scene.show(event);
    this.scene.pin(this.pinned);
    this.track.show(event);
    this.event.replaceChildren(...eventLine(this.view, this.round, event));
    if (this.shownRound !== this.round) this.showRound(round);
    const panel = this.pinned === null ? eventPanel(this.round, event) : `node ${this.pinned}`;
    if (this.shownSide !== this.scene || this.shownPanel !== panel) this.showSide(panel);
    this.rest();
  }

  showRound(round) {
    this.shownRound = this.round;
    this.text.show(round);
    this.rounds.show(round);
    this.roundName.replaceChildren("Round ", element("strong", {}, `${round}`), element("span", { class: "tg-quiet" }, ` of 0 to ${this.view.total - 1}`));
    this.summary.replaceChildren(...summaryLine(this.view, this.round));
  }

  showSide(panel) {
    [this.shownSide, this.shownPanel] = [this.scene, panel];
    const item = this.scene.byId.get(this.pinned);
    this.said.textContent = item ? tipOf(this.view, this.round, item, this.at.event).map((part) => part.textContent ?? part).join("") : "";
    if (item) requestAnimationFrame(() => reveal(this.stage, item));
    const choose = (id, open) => this.choose(id, open);
    const parts = item ? nodeSheet(this.view, this.round, item, choose)
      : [...eventSheet(this.view, this.round, this.at.event, choose), ...legend(this.view, this.round)];
    this.side.replaceChildren(...parts.filter(Boolean));
  }

  rest() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.hooks.place?.({ ...this.at, node: this.pinned }), REST_MILLISECONDS);
  }

  step(by) {
    const event = this.at.event + by;
    if (event < 0) return this.at.round > 0 ? this.go(this.at.round - 1, Infinity) : undefined;
    if (event < this.round.events.length) return this.go(this.at.round, event, this.pinned);
    if (this.at.round + 1 < this.view.total) return this.go(this.at.round + 1, 0);
    return this.play(false);
  }

  stepRound(by) {
    const round = this.at.round + by;
    if (round >= 0 && round < this.view.total) this.go(round);
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.step(1), STEP_MILLISECONDS) : null;
    this.playButton.replaceChildren(icon(on ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", on ? "Pause" : "Play");
    this.playButton.setAttribute("aria-pressed", on ? "true" : "false");
  }

  jump(kind, from = this.at) {
    const found = findNext(this.view, kind, from);
    if (found) {
      this.go(found.round, found.event, found.node);
      return this.lookAt(found);
    }
    if (this.lastRound + 1 < this.view.total) return this.ask({ round: this.lastRound + 1, jump: kind });
    return this.say(`No further ${kind} in this recording.`);
  }

  // Brings what was retrieved into sight, the best of it where not all fits.
  lookAt({ event, node }) {
    const nodes = node === null ? this.round.events[event].nodes || [] : [];
    const items = nodes.map((one) => this.scene.byId.get(one)).filter(Boolean);
    if (items.length) requestAnimationFrame(() => reveal(this.stage, items[0]));
  }

  say(words) {
    this.toast.textContent = words;
    clearTimeout(this.hush);
    this.hush = setTimeout(() => { this.toast.textContent = ""; }, 2500);
  }

  under(event) {
    if (!this.scene) return null;
    const box = this.scene.svg.getBoundingClientRect();
    return this.scene.nearest(event.clientX - box.left, event.clientY - box.top);
  }

  hover(item, event) {
    const id = item ? item.id : null;
    this.stage.classList.toggle("tg-pointing", item !== null && item !== undefined);
    if (id !== this.hovered) {
      this.hovered = id;
      this.scene?.hover(id);
      this.tip.hidden = id === null;
      if (item) this.tip.replaceChildren(...tipOf(this.view, this.round, item, this.at.event));
    }
    if (item && event) placeTip(this.tip, this.stage, event);
  }

  // Pins an item, lets it go if it is pinned already, or opens a stub in the tree.
  choose(id, open = false) {
    if (open) {
      this.openStub(this.scene.byId.get(id).number);
      this.pinned = null;
    } else this.pinned = id === this.pinned ? null : id;
    if (this.pinned !== null && !this.scene.byId.has(this.pinned)) this.revealPinned();
    this.show();
  }

  toggleLabels() {
    this.allLabels = !this.allLabels;
    this.draw();
    this.show();
  }

  // The tree at its full height, for the page to scroll, or in a frame that scrolls by itself.
  toggleWhole() {
    this.root.classList.toggle("tg-whole");
  }

  help() {
    if (this.sheet) {
      this.sheet.remove();
      this.sheet = null;
      return;
    }
    this.sheet = helpSheet(() => this.help());
    this.root.append(this.sheet);
    this.sheet.querySelector("button").focus();
  }

  picture() {
    const title = `${this.view.title} · ${this.view.policy} · ${this.view.decoding} · round ${this.at.round}`;
    return pictureOf(this.scene, { title, summary: plain(sentence(this.view, this.round.say)) }, this.root);
  }

  fileName() {
    return `treegraft-round-${this.at.round}`;
  }
}
