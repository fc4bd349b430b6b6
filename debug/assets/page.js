// Replaces the changing part of the page when the server sends a new one. Without this script, the page reloads itself.
"use strict";
(() => {
  const live = document.getElementById("live");
  const feed = document.getElementById("feed");
  const params = new URLSearchParams(location.search);
  params.set("format", "events");
  const source = new EventSource("?" + params);
  let waiting = null;

  const say = (text, state) => {
    feed.textContent = text;
    feed.className = "feed " + state;
    feed.hidden = false;
  };
  // The page stays as it is while somebody selects text in it, or works with a form or a link in it.
  const busy = () => {
    const selected = document.getSelection();
    return (selected && !selected.isCollapsed && live.contains(selected.anchorNode)) ||
      (document.activeElement !== live && live.contains(document.activeElement));
  };
  const show = () => {
    if (waiting === null || busy()) return;
    const left = Array.from(live.querySelectorAll(".scroll, pre"), (e) => e.scrollLeft);
    const top = Array.from(live.querySelectorAll(".scroll, pre"), (e) => e.scrollTop);
    live.innerHTML = waiting;
    waiting = null;
    live.querySelectorAll(".scroll, pre").forEach((e, i) => {
      e.scrollLeft = left[i] || 0;
      e.scrollTop = top[i] || 0;
    });
  };
  source.onmessage = (event) => {
    waiting = event.data;
    show();
  };
  source.onopen = () => say("live", "good");
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) say("ended", "bad");
    else if (document.visibilityState === "visible") say("connecting", "warn");
  };
  document.addEventListener("selectionchange", show);
  live.addEventListener("focusout", () => setTimeout(show));
})();
