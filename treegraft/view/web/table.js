// The nodes of a round as a table, sorted by any column: the tree for those who do not use a pointer or cannot see it.

const COLUMNS = [
  ["token", (row) => row.text], ["depth", (row) => row.depth], ["drafter", (row) => row.drafter],
  ["q", (row) => likelihood(row.q)], ["p", (row) => likelihood(row.p)], ["score", (row) => row.score],
  ["rank", (row) => row.rank], ["fate", (row) => FATE_WORDS[row.fate]],
];

// One row a node, the target's own token last; what a node does not have is null.
function tableRows(view, round) {
  return tokensOf(view, round).map((at) => {
    const own = at.node === "bonus", drafted = !own && at.node > 0;
    return { id: at.node, text: at.text, depth: at.depth, fate: at.fate,
      drafter: drafted ? drafterName(view, round.origin[at.node]) : "", q: drafted ? round.q[at.node] : null,
      p: drafted ? round.logprob[at.node] : null, score: drafted ? round.score[at.node] : null,
      rank: drafted && round.score[at.node] !== null ? round.rank[at.node] : null };
  });
}

// Rows in the order of a column; rows without a value come last either way.
function sorted(rows, [column, falling]) {
  const value = COLUMNS.find(([name]) => name === column)[1];
  const order = (one, other) => (typeof one === "string" ? one.localeCompare(other) : one - other) * (falling ? -1 : 1);
  return rows.slice().sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    return a === null || b === null ? (a === null) - (b === null) : order(a, b);
  });
}

function nodeTable(view, round, { order, only, pinned, sort, choose }) {
  const [column, falling] = order;
  const head = COLUMNS.map(([name]) => element("th", { scope: "col", "aria-sort": name !== column ? "none" : falling ? "descending" : "ascending" },
    element("button", { class: "tg-textlink", onclick: () => sort([name, name === column ? !falling : ["q", "p", "score"].includes(name)]) },
      element("span", { title: TERMS.get(name) }, name), element("span", { "aria-hidden": "true" }, name !== column ? "" : falling ? " ↓" : " ↑"))));
  const rows = sorted(tableRows(view, round), order).filter((row) => !only || only.has(row.id));
  const number = (words) => element("td", { class: "tg-number" }, words);
  const body = rows.map((row) => element("tr", { class: row.id === pinned ? "tg-self" : undefined, "data-id": row.id },
    element("th", { scope: "row" }, element("button", { class: "tg-textlink", "aria-pressed": row.id === pinned ? "true" : "false", onclick: () => choose(row.id) }, chip(row.text, 24))),
    number(`${row.depth}`), element("td", {}, row.drafter), number(row.q === null ? "" : prob(row.q)), number(row.p === null ? "" : prob(row.p)),
    number(row.score === null ? "" : nats(row.score)), number(row.rank === null ? "" : `${row.rank}`),
    element("td", {}, element("span", { class: `tg-fate tg-fate-${row.fate}` }, FATE_WORDS[row.fate]))));
  return element("table", { class: "tg-node-table" }, element("caption", {}, `${rows.length} of ${round.token.length + 1} tokens of round ${round.index}`),
    element("thead", {}, element("tr", {}, head)), element("tbody", {}, body));
}
