// The player as a Streamlit component: Streamlit calls this again whenever data or theme change.

const mounted = new WeakMap();

export default function ({ data: packed, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".tg-root");
  const known = mounted.get(root);
  const { view: text, ...rest } = packed;
  const data = { ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, JSON.parse(value)])), text };
  const fresh = !known || known.data.text !== text || known.data.key !== data.key;
  const view = fresh ? { ...JSON.parse(text), key: data.key } : null;
  if (known) {
    const { handle } = known;
    known.data = data;
    handle.player.theme();
    if (fresh) handle.update(view);
    else handle.player.rest();
    obey(known);
  } else {
    const state = { data };
    mounted.set(root, state);
    state.handle = mount(root, view, {
      compact: data.compact,
      start: data.link ? placeOf(new URLSearchParams(window.location.search)) : {},
      place: (at) => {
        if (state.data.link) writePlace({ ...state.data.link, ...at });
        if (state.data.follow) setStateValue("at", { key: state.data.key, wish: state.obeyed, ...at });
      },
      window: (first) => setStateValue("window", { key: state.data.key, first }),
      save: data.link ? [{ label: "Copy link", act: (player) => copyLink(player) }] : [],
    });
    obey(state);
  }
  return () => mounted.get(root)?.handle.destroy();
}

// Goes where the page wants the player, once for each wish.
function obey(state) {
  const { go } = state.data;
  if (!go || go.wish === state.obeyed) return;
  state.obeyed = go.wish;
  state.handle.player.go(go.round, go.event, go.node);
}

// The place is kept in the address by the browser alone: moving about costs no run of the script.
function writePlace(place) {
  const address = new URL(window.location.href);
  for (const [name, value] of Object.entries(place)) {
    if (value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  window.history.replaceState(window.history.state, "", address);
}

async function copyLink(player) {
  try {
    await navigator.clipboard.writeText(window.location.href);
    player.say("Link copied.");
  } catch {
    player.say("The browser refused; the link is in its address bar.");
  }
}
