// What the console adds to pages that work without it: changes as they come, a switch of light and dark, keyboard shortcuts.
"use strict";
(() => {
  const START_MS = 1000, INTERVAL_MS = 5000, PATIENCE_MS = 20000;
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only */ }
  }

  let since = "";
  function tell(text) {
    const place = document.getElementById("connection");
    if (place && place.textContent !== text) place.textContent = text;
  }
  function silent() {
    since = since || new Date().toLocaleTimeString();
    tell("No answer since " + since);
  }
  function answered() {
    since = "";
    tell("");
  }

  // Replaces a part of the page; one that is in use waits until it is not.
  const waiting = new Map();
  const inUse = part => part.contains(document.activeElement) || part.contains(getSelection().anchorNode) && !getSelection().isCollapsed;
  function replace(part, next) {
    waiting.delete(part.id);
    if (next.innerHTML === part.innerHTML) return;
    if (inUse(part)) { waiting.set(part.id, next); return; }
    const left = [...part.querySelectorAll(".scrolls")].map(each => each.scrollLeft);
    part.replaceChildren(...next.childNodes);
    part.querySelectorAll(".scrolls").forEach((each, at) => { each.scrollLeft = left[at] || 0; });
  }
  function replaceWaiting() {
    for (const [id, next] of [...waiting]) {
      const part = document.getElementById(id);
      if (part) replace(part, next);
    }
  }
  const parsed = text => new DOMParser().parseFromString(text, "text/html");

  // Asks for the whole page, where no stream is to be had.
  async function refresh() {
    try {
      const answer = await fetch(location.href, {signal: AbortSignal.timeout(PATIENCE_MS)});
      if (!answer.ok) throw new Error(answer.status);
      const fresh = parsed(await answer.text());
      answered();
      for (const part of document.querySelectorAll("[data-live]")) {
        const next = fresh.getElementById(part.id);
        if (next) replace(part, next);
      }
    } catch {
      silent();
    }
  }

  // Follows the changes of the page while it is seen.
  let stream = null, alarm = 0;
  function heard() {
    answered();
    clearTimeout(alarm);
    alarm = setTimeout(silent, PATIENCE_MS);
    replaceWaiting();
  }
  function unfollow() {
    clearTimeout(alarm);
    if (stream) stream.close();
    stream = null;
  }
  function follow() {
    if (stream || document.hidden || !document.querySelector("[data-live]")) return;
    stream = new EventSource(location.href);
    stream.addEventListener("open", heard);
    stream.addEventListener("alive", heard);
    stream.addEventListener("part", event => {
      heard();
      const told = JSON.parse(event.data), part = document.getElementById(told.id);
      if (part) replace(part, parsed(told.html).body.firstElementChild);
    });
    stream.addEventListener("over", event => { unfollow(); tell("Out of date: " + JSON.parse(event.data).reason); });
    stream.addEventListener("error", () => {
      silent();
      if (!stream || stream.readyState !== EventSource.CLOSED) return; // it tries again by itself
      unfollow();
      refresh().finally(() => setTimeout(follow, INTERVAL_MS));
    });
  }

  // A search goes on by itself, part after part, until it is stopped, has gone through all, or the page is full.
  const MOST_ROWS = 500;
  async function searchOn(place) {
    const stop = document.createElement("button");
    let stopped = false;
    stop.type = "button";
    stop.textContent = "Stop";
    stop.addEventListener("click", () => { stopped = true; });
    let next = place.querySelector("a").href, parts = [...place.childNodes];
    place.replaceChildren(stop);
    stop.focus();
    try {
      while (next && !stopped) {
        const answer = await fetch(next, {signal: AbortSignal.timeout(PATIENCE_MS * 3)});
        if (!answer.ok) throw new Error(answer.status);
        const part = new DOMParser().parseFromString(await answer.text(), "text/html");
        const rows = [...part.querySelectorAll("#found tbody tr")];
        const table = document.querySelector("#found tbody");
        if (table) table.append(...rows);
        else if (rows.length) document.querySelector("#found .empty").replaceWith(part.querySelector("#found .scrolls"));
        const shown = document.querySelectorAll("#found tbody tr").length;
        document.getElementById("progress").textContent = shown + " shown; last part: " + part.getElementById("progress").textContent;
        const onward = part.querySelector("[data-continue] a");
        next = onward ? onward.href : "";
        parts = onward ? [onward] : [];
        if (shown >= MOST_ROWS) break;
      }
      place.replaceChildren(...parts);
    } catch {
      place.replaceChildren(...parts);
      tell("The search was interrupted");
    }
  }

  document.addEventListener("click", event => {
    const place = event.target.closest && event.target.closest("[data-continue]");
    if (place && event.target.closest("a")) { event.preventDefault(); searchOn(place); }
  });

  document.addEventListener("keydown", event => {
    const typing = event.target.closest && event.target.closest("input, textarea, select");
    if (event.key === "Escape" && typing) typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "d") return switchTheme();
    const search = event.key === "/" && document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); return search.focus(); }
    const entry = [...document.querySelectorAll("[data-key]")].find(each => each.dataset.key === event.key);
    if (entry) entry.click();
  });

  document.addEventListener("DOMContentLoaded", () => {
    const theme = document.getElementById("theme");
    theme.hidden = false;
    theme.addEventListener("click", switchTheme);
    setTimeout(follow, START_MS);
    document.addEventListener("visibilitychange", () => { if (document.hidden) unfollow(); else follow(); });
    document.addEventListener("focusout", () => setTimeout(replaceWaiting));
    addEventListener("pagehide", unfollow);
    addEventListener("pageshow", event => { if (event.persisted) follow(); });
  });
})();
