// The player on a page of its own: everything is in the file, and the place is kept behind the # of its address.

const state = JSON.parse(document.getElementById("view").textContent);
mount(document.querySelector(".tg-root"), { ...state, key: "page" }, {
  start: placeOf(new URLSearchParams(window.location.hash.slice(1))),
  place: ({ round, event, node }) => {
    const words = new URLSearchParams({ round, event, ...(node === null ? {} : { node }) });
    window.history.replaceState(null, "", `#${words}`);
  },
});
