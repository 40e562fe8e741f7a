// The output text as a map of the run: a chunk a round, drafted and chosen tokens told apart by more than colour.

const TOKEN_WORDS = { d: "drafted and accepted", c: "the target’s own choice", x: "discarded: after the end of the text" };

class TextMap {
  constructor(view, go) {
    this.chunks = new Map();
    this.root = element("div", { class: "tg-text", role: "group", "aria-label": "Output text, by round" });
    if (view.first > 0) this.root.append(element("span", { class: "tg-cut" }, "… "));
    for (const { round, tokens } of view.text) this.root.append(this.chunk(view, round, tokens, go));
    if (view.first + view.rounds.length < view.total) this.root.append(element("span", { class: "tg-cut" }, " …"));
  }

  chunk(view, round, tokens, go) {
    const parts = tokens.map(([text, kind, node]) => element("span", {
      class: `tg-token tg-token-${kind}`, title: TOKEN_WORDS[kind], "data-node": node === null ? undefined : node,
    }, text));
    if (round < 0) return element("span", { class: "tg-chunk" }, parts);
    const made = element("span", {
      class: "tg-chunk tg-link", role: "button", tabindex: -1, "aria-label": `Round ${round}: ${tokens.map(([text]) => text).join("")}`,
      onclick: (event) => {
        const node = event.target.closest?.("[data-node]")?.dataset.node;
        go(round, node === undefined ? null : node === "-1" ? "bonus" : Number(node));
      },
      onkeydown: (event) => { if (event.key === "Enter") go(round, null); },
    }, parts);
    this.chunks.set(round, made);
    return made;
  }

  show(round) {
    if (this.current) {
      this.current.classList.remove("tg-here");
      this.current.tabIndex = -1;
      this.current.removeAttribute("aria-current");
    }
    this.current = this.chunks.get(round);
    if (!this.current) return;
    this.current.classList.add("tg-here");
    this.current.tabIndex = 0;
    this.current.setAttribute("aria-current", "true");
    requestAnimationFrame(() => keepInSight(this.root, this.current, parseFloat(getComputedStyle(this.root).lineHeight)));
  }
}

// Scrolls the container (which is positioned), and never the page, until the child is in its middle, by whole lines.
function keepInSight(container, child, line = 1) {
  const top = child.offsetTop - (container.clientHeight - child.offsetHeight) / 2;
  container.scrollTop = Math.round(top / line) * line;
}
