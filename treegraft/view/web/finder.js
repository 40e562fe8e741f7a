// The search box: what it finds is marked in the tree and in the track of the rounds, and can be walked through.

const TYPING_MILLISECONDS = 150;

class Finder {
  constructor(player) {
    Object.assign(this, { player, text: "", hits: [], ids: new Map(), at: -1, only: false });
    this.input = element("input", { type: "text", class: "tg-find-input", "aria-label": "Search tokens", "aria-keyshortcuts": "/",
      placeholder: "Search: text, #id, p<0.1 and accepted", spellcheck: "false", autocomplete: "off", maxlength: 200,
      oninput: () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.search(this.input.value), TYPING_MILLISECONDS); } });
    const step = (words, keys, by, name) => element("button", { class: "tg-icon", title: `${words} (${keys})`, "aria-label": words,
      "aria-keyshortcuts": keys, onclick: () => this.next(by) }, icon(name));
    this.filter = element("input", { type: "checkbox", onchange: () => { this.only = this.filter.checked; this.mark(); } });
    this.count = element("span", { class: "tg-find-count tg-quiet", role: "status" });
    this.found = element("span", { class: "tg-find-tools", hidden: true }, this.count, step("Previous hit", "Shift+N", -1, "back"),
      step("Next hit", "N", 1, "next"), element("label", { class: "tg-find-only", title: "Fade everything else" }, this.filter, "only these"));
    this.problem = element("p", { class: "tg-find-problem", role: "status", hidden: true });
    this.root = element("div", { class: "tg-find", role: "search" }, this.input, this.found, this.problem);
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  // Keys while the box has the focus; they are kept from the page, which has uses of its own for letters.
  onKey(event) {
    event.stopImmediatePropagation();
    if (event.key === "Enter") {
      event.preventDefault();
      if (this.input.value !== this.text) this.search(this.input.value);
      this.next(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.leave();
    }
  }

  leave() {
    this.input.blur();
    this.player.stage.focus({ preventScroll: true });
  }

  clear() {
    this.input.value = "";
    this.search("");
  }

  search(text) {
    clearTimeout(this.typing);
    this.text = text;
    this.at = -1;
    this.refresh();
  }

  // Looks again, as the rounds at hand may be others.
  refresh() {
    const { view } = this.player;
    this.hits = [];
    this.ids = new Map();
    let problem = null;
    try {
      const test = this.text.trim() ? queryOf(this.text) : null;
      for (const round of test ? view.rounds : []) this.look(view, round, test);
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      problem = error.message;
    }
    this.problem.hidden = problem === null;
    this.problem.replaceChildren(...(problem === null ? [] : [element("strong", {}, problem), " ", ALLOWED]));
    this.input.setAttribute("aria-invalid", problem === null ? "false" : "true");
    this.mark();
  }

  look(view, round, test) {
    const ids = tokensOf(view, round).filter(test).map(({ node }) => node);
    if (ids.length) this.ids.set(round.index, new Set(ids));
    this.hits.push(...ids.map((id) => ({ round: round.index, id })));
  }

  get active() {
    return this.text.trim() !== "" && this.problem.hidden;
  }

  mark() {
    const { player } = this;
    this.found.hidden = !this.active;
    player.root.classList.toggle("tg-only", this.active && this.only);
    player.rounds?.find(this.active ? this.ids : new Map());
    player.scene?.find(this.idsHere());
    player.showTable();
    this.tell();
  }

  // What was found in the round shown, null while nothing is searched for.
  idsHere() {
    return this.active ? this.ids.get(this.player.at.round) || new Set() : null;
  }

  tell() {
    const { view } = this.player, whole = view.rounds.length === view.total;
    const where = whole ? "" : ` in rounds ${view.first} to ${this.player.lastRound}`;
    const place = this.at < 0 ? `${this.hits.length} ${this.hits.length === 1 ? "hit" : "hits"}` : `${this.at + 1} of ${this.hits.length}`;
    this.count.textContent = `${this.hits.length ? place : "No hit"}${where}`;
  }

  // The hit after or before the one shown, or the place shown; beyond the rounds at hand more are asked for, and beyond the
  // whole run it starts anew.
  next(by) {
    if (!this.active) return this.focus();
    const { player } = this, here = player.at.round;
    const last = this.hits.length - 1;
    const on = this.hits[this.at]?.round === here ? this.at : null;
    const after = this.hits.findIndex(({ round }) => round >= here);
    const fresh = by > 0 ? (after < 0 ? last + 1 : after) : this.hits.filter(({ round }) => round <= here).length - 1;
    const place = on === null ? fresh : on + by;
    if (place >= 0 && place <= last) return this.go(place);
    if (last >= 0 && player.view.rounds.length === player.view.total) return this.go(by > 0 ? 0 : last);
    const beyond = by > 0 ? player.lastRound + 1 : player.view.first - 1;
    if (beyond >= 0 && beyond < player.view.total && player.hooks.window) return player.ask({ round: beyond, seek: by });
    return player.say(last < 0 ? "No hit in this recording." : by > 0 ? "No further hit." : "No earlier hit.");
  }

  // Goes on in rounds that have just come, from a round on.
  seek({ round, seek: by }) {
    const places = this.hits.map((hit, place) => [hit, place]).filter(([hit]) => (by > 0 ? hit.round >= round : hit.round <= round));
    this.at = -1;
    if (places.length) return this.go(places[by > 0 ? 0 : places.length - 1][1]);
    this.player.go(by > 0 ? this.player.lastRound : this.player.view.first);
    return this.next(by);
  }

  go(place) {
    this.at = place;
    const { round, id } = this.hits[place];
    this.player.go(round, null, id);
    this.tell();
  }
}
