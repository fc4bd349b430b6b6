// Replaces the changing part of the page when the server sends a new one. Without this script, the page reloads itself.
"use strict";
(() => {
  const live = document.getElementById("live");
  const feed = document.getElementById("feed");
  // As the server has written it: URLSearchParams would change a key whose bytes are no text, and so follow another one.
  const events = location.search + (location.search ? "&" : "?") + "format=events";
  let source = null;
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
  const listen = () => {
    source = new EventSource(events);
    source.onmessage = (event) => {
      waiting = event.data;
      show();
    };
    source.onopen = () => say("live", "good");
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) say("ended", "bad");
      else say("connecting", "warn");
    };
  };
  // A tab that nobody sees has no stream: it would cost the program something, and keep other tabs from loading, since a browser opens
  // six connections to a server.
  const follow = () => {
    if (document.visibilityState === "visible") {
      if (source === null) listen();
    } else if (source !== null) {
      source.close();
      source = null;
      say("paused", "");
    }
  };
  document.addEventListener("visibilitychange", follow);
  follow();
  document.addEventListener("selectionchange", show);
  live.addEventListener("focusout", () => setTimeout(show));
})();
