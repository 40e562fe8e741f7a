// The player: one round at a time, one event at a time. `mount` draws it into `root` and returns its handle.
//
// hooks: start        place to open at, {round, event, node}, all optional
//        place(at)    called when the place has changed, after a moment of rest
//        window(n)    asks for rounds from number n on; the answer comes through `update`
//        save         more items of the save menu, [{label, act}]
//        compact      leaves out heading, text and rounds, and hears keys only while it has the focus

const JUMPS = [["rejection", "R"], ["call", "C"], ["graft", "G"], ["full accept", "A"], ["divergence", "D"], ["worst round", "W"]];
const FEW_ROUNDS = 24;  // so many have room beside the text
const STEP_MILLISECONDS = 700;
const REST_MILLISECONDS = 200;
const MILLISECONDS_A_LETTER = 40;

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
      opened: new Map(), allLabels: false, timer: null, wish: null, listed: false, tabled: false,
      order: ["rank", false] });
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
    this.jumps = element("div", { class: "tg-jumps", role: "group", "aria-label": "Jump to the next" });
    this.jumpMenu = this.menuOf("tg-jump-menu", "Jump", [element("span", {}, "Jump")], "tg-button");
    this.finder = new Finder(this);
    this.listButton = button("Events as a list", "E", () => this.toggleList(), icon("list"));
    this.tableButton = button("Tokens as a table", "T", () => this.toggleTable(), icon("table"));
    this.labelButton = button("Label every token", "L", () => this.toggleLabels(), icon("labels"));
    this.tools = element("div", { class: "tg-tools" },
      this.listButton, this.tableButton, this.labelButton, button("Whole tree", "F", () => this.toggleWhole(), icon("whole")),
      button("Keys", "?", () => this.help(), "?"), this.saveMenu());
    this.words = element("div", { class: "tg-words" }, part("summary"), part("story"), part("event", { "aria-live": "polite" }));
    part("stage", { tabindex: 0, role: "group", "aria-label": "Draft tree" });
    part("table", { hidden: true });
    part("ribbonbox", { hidden: true });
    part("side", { role: "complementary", tabindex: 0 }).append(part("sheetbox"), part("legendbox"));
    part("tip", { role: "tooltip", hidden: true });
    part("toast", { role: "status" });
    part("said", { "aria-live": "polite" });
    this.root.classList.add("tg-player");
    this.root.classList.toggle("tg-compact", Boolean(this.hooks.compact));
    this.root.replaceChildren(part("heading"),
      element("div", { class: "tg-top" }, (this.top = element("div", { class: "tg-top-parts" }, part("textbox"), part("roundbox")))),
      element("div", { class: "tg-seek" }, this.finder.root, this.jumps, this.jumpMenu),
      element("div", { class: "tg-bar-row" }, this.controls, part("eventbox"), this.tools), this.words,
      element("div", { class: "tg-main" }, element("div", { class: "tg-frame" }, this.ribbonbox, this.stage, this.table, this.tip), this.side),
      this.toast, this.said);
    this.play(false);
  }

  // The jumps that lead somewhere in these rounds, as buttons in a row and, where there is little room, as a menu.
  showJumps() {
    const found = JUMPS.filter(([kind]) => (kind === "worst round" ? new Set(this.view.rounds.map((round) => round.accepted)).size > 1
      : (kind !== "divergence" || this.view.sampled) && findNext(this.view, kind, { round: -1, event: -1 })));
    const act = (kind) => (kind === "worst round" ? this.jumpToWorst() : this.jump(kind));
    const words = (kind) => (kind === "worst round" ? "Worst round" : `Next ${kind}`);
    this.jumps.replaceChildren(...found.map(([kind, key]) => element("button", { class: "tg-button tg-jump",
      title: `${words(kind)} (${key})`, "aria-label": words(kind), "aria-keyshortcuts": key, onclick: () => act(kind) },
    `${kind[0].toUpperCase()}${kind.slice(1)} `, element("kbd", {}, key))));
    this.jumpMenu.lastChild.replaceChildren(...found.map(([kind]) => element("button", { role: "menuitem",
      onclick: () => { this.jumpMenu.open = false; act(kind); } }, words(kind))));
  }

  // A button with a menu of entries.
  menuOf(name, label, summary, look = "tg-icon") {
    return element("details", { class: `tg-menu ${name}` },
      element("summary", { class: look, title: label, "aria-label": label }, summary), element("div", { role: "menu" }));
  }

  saveMenu() {
    const entry = (label, act) => element("button", { role: "menuitem", onclick: () => { menu.open = false; act(); } }, label);
    const menu = this.menuOf("tg-save", "Save or share", icon("save"));
    menu.lastChild.append(entry("Tree as PNG", () => savePng(this.picture(), this.fileName())),
      entry("Tree as SVG", () => saveSvg(this.picture(), this.fileName())),
      ...(this.hooks.save || []).map(({ label, act }) => entry(label, () => act(this))));
    return (this.menu = menu);
  }

  listen() {
    const { signal } = this.stops;
    window.addEventListener("keydown", (event) => onKey(this, event), { capture: true, signal });
    document.addEventListener("pointerdown", (event) => {
      for (const menu of [this.menu, this.jumpMenu]) if (!event.composedPath().includes(menu)) menu.open = false;
    }, { signal });
    this.stage.addEventListener("pointermove", (event) => this.hover(this.under(event), event));
    this.stage.addEventListener("pointerleave", () => this.hover(null));
    this.stage.addEventListener("click", (event) => this.choose(this.under(event)?.id ?? null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.theme(), { signal });
    this.stage.addEventListener("scroll", () => this.ribbon?.draw(), { passive: true });
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
    this.root.classList.toggle("tg-empty", !view.rounds.length);
    this.side.setAttribute("aria-label", `Details of ${view.policy}`);
    this.heading.replaceChildren(...heading(view));
    if (!view.rounds.length) return this.empty();
    this.text = new TextMap(view, (round, node) => this.go(round, null, node));
    this.rounds = new RoundTrack(view, (round) => this.go(round), (words) => this.say(words));
    this.showJumps();
    this.top.classList.toggle("tg-few", view.rounds.length <= FEW_ROUNDS);
    this.top.style.setProperty("--columns", view.rounds.length);
    this.textbox.replaceChildren(this.text.root);
    this.roundbox.replaceChildren(this.roundName = element("span", { class: "tg-round-name" }), this.rounds.names, this.rounds.root);
    this.ribbon = view.context ? new Ribbon(view.context) : null;
    this.ribbonbox.hidden = !view.context;
    this.ribbonbox.replaceChildren(...(this.ribbon ? [this.ribbon.root, this.ribbon.lines] : []));
    this.scene = this.shownRound = this.shownLegend = this.track = null;
    this.root.style.setProperty("--tg-tallest", `${Math.round(tallest(view))}px`);
    const at = this.wish || start || (same ? this.at : {});
    this.wish = null;
    this.finder.refresh();
    if (at.seek) this.finder.seek(at);
    else if (at.jump) this.jump(at.jump, { round: at.round, event: -1 });
    else this.go(at.round ?? bestRound(view), at.event ?? null, at.node ?? (same ? this.pinned : null));
  }

  empty() {
    this.play(false);
    this.scene = null;
    this.stage.replaceChildren(element("p", {}, "This recording has no rounds: it ended before the first one. Choose another recording, or record it again."));
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
    else if (node !== null) {
      this.pinned = node;
      if (!this.scene.byId.has(node)) this.revealPinned();
    }
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
    this.openEvents();
    this.ribbon?.open(this.round);
    this.draw();
    this.scrollToPath();
  }

  openEvents() {
    if (this.track?.take?.(this.round)) return;
    this.track = new (this.listed ? EventList : EventTrack)(this.view, this.round, (event) => this.go(this.at.round, event));
    this.eventbox.replaceChildren(this.track.root);
  }

  draw() {
    this.size ||= { width: this.stage.clientWidth, height: this.stage.clientHeight };
    const { width, height } = this.size;
    this.canvas ||= new Canvas();
    this.scene = new Scene(this.view, this.round, this.canvas, {
      opened: this.opened.get(this.at.round) || new Set(), allLabels: this.allLabels, width: width - 2,
      height: height - 2, best: width < 560 ? 6 : 16, measure: (this.ruler ||= rulerOf(this.root)) });
    this.scene.svg.setAttribute("aria-label", plain(sentence(this.view, this.round.say)));
    if (this.scene.svg.parentNode !== this.stage) this.stage.replaceChildren(this.scene.svg);
    this.scene.find(this.finder.idsHere());
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

  // To the middle of what was accepted, but never away from the root. Before the next paint, when the layout has to be
  // known anyway.
  scrollToPath() {
    const root = this.scene.byId.get(0).y, { height } = this.size;
    const rows = this.scene.items.filter((item) => item.kind === "bonus" || "accepted root".includes(item.fate)).map((item) => item.y);
    const top = (Math.min(...rows) + Math.max(...rows) - height) / 2;
    requestAnimationFrame(() => this.stage.scrollTo(0, Math.min(Math.max(top, root + 2 * MARGIN - height), root - 2 * MARGIN)));
  }

  // The observer knows the size, so that drawing need not ask for it, which would cost a layout.
  resized() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width) return;
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
    this.event.replaceChildren(...joined(eventLine(this.view, this.round, event)));
    if (this.shownRound !== this.round) this.showRound(round);
    const panel = this.pinned === null ? eventPanel(this.round, event) : `node ${this.pinned}`;
    if (this.shownSide !== this.scene || this.shownPanel !== panel) this.showSide(panel);
    this.showRibbon();
    if (this.pinned === null && event !== lastOf(this.round, "accept")) requestAnimationFrame(() => this.follow());
    this.rest();
  }

  showRound(round) {
    this.shownRound = this.round;
    this.text.show(round);
    this.rounds.show(round);
    this.roundName.replaceChildren("Round ", element("strong", {}, `${round}`), element("span", { class: "tg-quiet" }, ` of 0 to ${this.view.total - 1}`));
    this.summary.replaceChildren(...summaryLine(this.view, this.round));
    this.story.replaceChildren(...joined(storyLine(this.view, this.round)));
    this.showTable();
  }

  // Scrolls to what the event marks, the best of it, where none of it is in sight.
  follow() {
    const { scrollTop, scrollLeft } = this.stage, { width, height } = this.size;
    const items = this.scene.marked();
    const seen = ({ x, y }) => y > scrollTop && y < scrollTop + height && x > scrollLeft && x < scrollLeft + width;
    if (items.length && !items.some(seen)) reveal(this.stage, items[0]);
  }

  showRibbon() {
    if (!this.ribbon) return;
    const copied = [this.hovered, this.pinned].find((node) => typeof node === "number" && this.round.copied[node]);
    this.ribbon.show(this.round, copiedNodes(this.round, this.at.event, copied), this.scene, this.stage);
  }

  showTable() {
    this.table.hidden = !this.tabled;
    if (!this.tabled || !this.scene) return;
    const only = this.finder.only ? this.finder.idsHere() : null;
    this.table.replaceChildren(nodeTable(this.view, this.round, { order: this.order, only, pinned: this.pinned,
      choose: (id) => this.choose(id), sort: (order) => { this.order = order; this.showTable(); this.table.querySelector("[aria-sort]:not([aria-sort=none]) button").focus(); } }));
  }

  showSide(panel) {
    [this.shownSide, this.shownPanel] = [this.scene, panel];
    const item = this.scene.byId.get(this.pinned);
    this.said.textContent = item ? tipOf(this.view, this.round, item, this.at.event).map((part) => part.textContent ?? part).join("") : "";
    if (item) requestAnimationFrame(() => reveal(this.stage, item));
    const choose = (id, open) => this.choose(id, open);
    this.sheetbox.replaceChildren(...(item ? nodeSheet(this.view, this.round, item, choose)
      : eventSheet(this.view, this.round, this.at.event, choose)).filter(Boolean));
    this.showLegend(item && !this.hooks.compact ? null : legendFacts(this.view, this.round));
    for (const row of this.table.querySelectorAll("tbody tr")) {
      const own = row.dataset.id === `${this.pinned}`;
      row.classList.toggle("tg-self", own);
      row.querySelector("button").setAttribute("aria-pressed", own ? "true" : "false");
    }
  }

  // Most rounds have the same legend: what is left alone needs no layout. A compact player folds it up.
  showLegend(facts) {
    const name = JSON.stringify(facts);
    if (name === this.shownLegend) return;
    this.shownLegend = name;
    const [title, ...body] = facts ? legend(this.view, facts) : [];
    const open = this.legendbox.querySelector("details")?.open;
    this.legendbox.replaceChildren(...(!facts ? [] : this.hooks.compact
      ? [element("details", { class: "tg-fold", open }, element("summary", {}, title), body)] : [title, ...body]));
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
    if (this.lastRound + 1 < this.view.total && this.hooks.window) return this.ask({ round: this.lastRound + 1, jump: kind });
    return this.say(`No further ${kind} in this recording.`);
  }

  // The round at hand that accepted the fewest tokens, and from there the next worst.
  jumpToWorst() {
    const order = worstFirst(this.view);
    if (!order.length) return;
    const here = this.worst === this.round ? order.indexOf(this.round) + 1 : 0;
    this.worst = order[here % order.length];
    this.go(this.worst.index);
    this.say(`Round ${this.worst.index}: ${this.worst.accepted} accepted, worst ${here % order.length + 1} of ${order.length}.`);
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
    this.hush = setTimeout(() => { this.toast.textContent = ""; }, 2500 + MILLISECONDS_A_LETTER * words.length);
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
      this.showRibbon();
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
    this.labelButton.setAttribute("aria-pressed", this.allLabels ? "true" : "false");
    this.draw();
    this.show();
  }

  // The tree at its full height, for the page to scroll, or in a frame that scrolls by itself.
  toggleWhole() {
    this.root.classList.toggle("tg-whole");
  }

  // The events of the round as a list, or as a slider.
  toggleList() {
    this.listed = !this.listed;
    this.root.classList.toggle("tg-listing", this.listed);
    this.listButton.setAttribute("aria-pressed", this.listed ? "true" : "false");
    this.track = null;
    this.openEvents();
    this.show();
  }

  // The tokens of the round as a table, or as a tree.
  toggleTable() {
    this.tabled = !this.tabled;
    this.root.classList.toggle("tg-tabling", this.tabled);
    this.tableButton.setAttribute("aria-pressed", this.tabled ? "true" : "false");
    this.tip.hidden = true;
    this.showTable();
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
