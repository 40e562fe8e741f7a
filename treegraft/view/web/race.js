// The lane of plain decoding: its text grows at the times that were measured, by the clock of the run beside it.

class Lane {
  constructor() {
    this.box = element("section", { class: "tg-lane", hidden: "" },
      (this.head = element("h3", {})),
      (this.words = element("div", { class: "tg-race-text", role: "log", "aria-label": "Text of plain decoding", tabindex: 0 })));
  }

  // `race`: its heading, the clock of the run beside it (microseconds; null: all of the lane), and whether that run has
  // ended, so that the lane goes on alone.
  show(race, text) {
    this.box.hidden = !race;
    if (!race) return this.stop();
    this.head.textContent = race.heading;
    if (text !== this.source) Object.assign(this, { source: text, lane: JSON.parse(text) });
    if (race.goes_on && race.clock === this.from) return;
    const followed = this.clock !== undefined;
    this.stop();
    this.draw(race.clock === null || (race.goes_on && !followed) ? Infinity : race.clock);
    if (!race.goes_on) return;
    this.from = race.clock;
    const begun = performance.now();
    this.timer = setInterval(() => this.draw(race.clock + 1000 * (performance.now() - begun)), 100);
  }

  draw(clock) {
    this.clock = clock;
    const { text, times } = this.lane, shown = times.filter((time) => time <= clock).length;
    this.words.textContent = text.slice(0, shown).join("");
    this.words.scrollTop = this.words.scrollHeight;
    if (shown >= text.length) clearInterval(this.timer);
  }

  stop() {
    clearInterval(this.timer);
    this.clock = this.from = undefined;
  }
}
