// Replaces the changing part of the page when the server sends a new one. Without this script, the page reloads itself.
"use strict";
(() => {
  const live = document.getElementById("live");
  const feed = document.getElementById("feed");
  // Exactly as the server has written it: URLSearchParams would change a key whose bytes are not text, and follow another key.
  const events = location.search + (location.search ? "&" : "?") + "format=events";
  let source = null;
  let waiting = null;

  const say = (text, state) => {
    feed.textContent = text;
    feed.className = "feed " + state;
    feed.hidden = false;
  };
  // The page does not change while text in it is selected, or while a form or a link in it has the focus.
  const busy = () => {
    const selected = document.getSelection();
    return (selected && !selected.isCollapsed && live.contains(selected.anchorNode)) ||
      (document.activeElement !== live && live.contains(document.activeElement));
  };
  // What the bar says is true at each moment: a page that does not change is not live.
  const report = () => {
    if (source === null) say("paused", "");
    else if (source.readyState === EventSource.CLOSED) say("ended", "bad");
    else if (source.readyState === EventSource.CONNECTING) say("connecting", "warn");
    else if (busy()) say("frozen: press Esc", "warn");
    else say("live", "");
  };
  const show = () => {
    report();
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
  const listen = () => {
    source = new EventSource(events);
    source.onmessage = (event) => {
      waiting = event.data;
      show();
    };
    source.onopen = report;
    source.onerror = report;
  };
  // A hidden tab has no stream: a stream would cost the program something, and could keep other tabs from loading, because a browser
  // opens only six connections to a server.
  const follow = () => {
    if (document.visibilityState === "visible") {
      if (source === null) listen();
    } else if (source !== null) {
      source.close();
      source = null;
      report();
    }
  };
  document.addEventListener("visibilitychange", follow);
  follow();
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && busy()) { // what keeps the page from changing
      document.activeElement.blur();
      document.getSelection().removeAllRanges();
      return;
    }
    const q = document.getElementById("q");
    const typing = document.activeElement && document.activeElement.matches("input, textarea, select");
    if (event.key !== "/" || typing || event.ctrlKey || event.altKey || event.metaKey || q === null) return;
    event.preventDefault();
    q.focus();
    q.select();
  });
  document.addEventListener("selectionchange", show);
  live.addEventListener("focusin", report);
  live.addEventListener("focusout", () => setTimeout(show));
})();
