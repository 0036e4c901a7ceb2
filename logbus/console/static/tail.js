// Follows the end of a topic: reads the event stream of the HTTP API while the page is seen, into a table of bounded length.
"use strict";
(() => {
  const RETRY_MS = 2000, PATIENCE_MS = 25000, HEX_BYTES = 1024, MOST_HEADERS = 20;
  // What is not seen, or changes the direction of the text around it; lines may break.
  const UNSEEN = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]/gu;
  const printable = text => text.replace(UNSEEN, "\ufffd");
  let place, rows, most, state, pause, last = "", reading = null, retry = 0, alarm = 0, isPaused = false, seen = 0;

  function made(kind, text, class_) {
    const element = document.createElement(kind);
    if (text !== undefined) element.textContent = text;
    if (class_) element.className = class_;
    return element;
  }

  // Bytes as people read them; the page of the record decodes values of schemas.
  function hex(bytes) {
    const lines = [];
    for (let at = 0; at < Math.min(bytes.length, HEX_BYTES); at += 16) {
      const part = [...bytes.slice(at, at + 16)].map(each => each.charCodeAt(0));
      const digits = part.map(each => each.toString(16).padStart(2, "0")).join(" ");
      const shown = part.map(each => each >= 32 && each < 127 ? String.fromCharCode(each) : ".").join("");
      lines.push(at.toString(16).padStart(4, "0") + "  " + digits.padEnd(47) + "  " + shown);
    }
    return lines.join("\n");
  }
  function text(shown) {
    return "base64" in shown ? hex(atob(shown.base64)) : printable(shown.text);
  }
  function note(shown) {
    const start = "base64" in shown ? atob(shown.base64.slice(0, 8)) : shown.text.slice(0, 5);
    const notes = [];
    if (shown.cut) notes.push("the first bytes of " + shown.size.toLocaleString("en"));
    if (shown.size > 5 && start[0] === "\0") notes.push("it may be of a schema: its offset leads to what it says");
    return notes.join("; ");
  }

  function row(each) {
    const line = made("tr"), offset = made("td", undefined, "number"), link = made("a", each.offset.toLocaleString("en"));
    const at = new URLSearchParams({partition: each.partition, from: "offset", at: each.offset});
    link.href = place.dataset.records + "?" + at;
    offset.append(link);
    const time = each.timestamp < 0 || each.timestamp > 8.64e15 ? "–" : new Date(each.timestamp).toISOString().slice(0, -1).replace("T", " ");
    const key = made("td", undefined, "key"), value = made("td", undefined, "value-cell");
    key.append(each.key === null ? made("span", "null", "badge") : made("code", text(each.key).slice(0, 200)));
    if (each.value === null) value.append(made("span", "tombstone", "badge warn"));
    else {
      value.append(made("pre", text(each.value), "content"));
      if (note(each.value)) value.append(made("p", note(each.value), "note"));
    }
    const headers = made("div", undefined, "headers");
    for (const header of each.headers.slice(0, MOST_HEADERS)) {
      const one = made("div");
      one.append(made("bdi", printable(header.name).slice(0, 60)), ": ", made("code", header.value === null ? "null" : text(header.value).slice(0, 200)));
      headers.append(one);
    }
    const more = each.headers.length + each.headers_left_out - headers.childElementCount;
    if (more) headers.append("and " + more + " more");
    if (headers.hasChildNodes()) value.append(headers);
    line.append(made("td", each.partition, "number"), offset, made("td", time, "time"), key, value);
    return line;
  }

  function add(lines) {
    rows.prepend(...lines.reverse());
    while (rows.childElementCount > most) rows.lastElementChild.remove();
    count();
  }
  function count() {
    const kept = rows.childElementCount < seen ? ", the last " + most + " are kept" : "";
    document.getElementById("tail-count").textContent = seen.toLocaleString("en") + (seen === 1 ? " record" : " records") + kept;
  }
  function tell(told) {
    if (state.textContent !== told) state.textContent = told;
  }

  function take(lines) {
    const fields = {};
    for (const line of lines.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (fields.id) last = fields.id;
    if (!fields.data) return;
    const told = JSON.parse(fields.data);
    if (fields.event === "records") {
      seen += told.items.length;
      add(told.items.map(row));
    } else if (fields.event === "gap") {
      const line = made("tr"), cell = made("td", "Partition " + told.partition + ": records from offset " + told.offset + " on were deleted before they were read.");
      cell.colSpan = 5;
      line.append(cell);
      add([line]);
    } else if (fields.event === "error") throw new Refused(told);
  }

  class Refused extends Error {
    constructor(told) {
      super(told.detail || told.title || "The stream was refused.");
      this.isPassing = told.retriable === true;
    }
  }

  async function read(signal, heard) {
    const headers = {Accept: "text/event-stream", ...(last ? {"Last-Event-ID": last} : {})};
    const answer = await fetch(place.dataset.tail, {headers, signal, cache: "no-store"});
    if (!answer.ok) throw new Refused(await answer.json().catch(() => ({title: answer.statusText})));
    tell("Following");
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const {done, value} = await pieces.read();
      if (done) return;
      heard();
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      events.forEach(take);
    }
  }

  function end() {
    clearTimeout(retry);
    clearTimeout(alarm);
    if (reading) reading.abort();
    reading = null;
  }
  async function begin() {
    if (reading || isPaused || document.hidden) return;
    clearTimeout(retry);
    const mine = reading = new AbortController();
    const heard = () => { clearTimeout(alarm); alarm = setTimeout(() => mine.abort(), PATIENCE_MS); };
    let refused = null;
    heard();
    try {
      await read(mine.signal, heard);
    } catch (error) {
      if (error instanceof Refused) refused = error;
    }
    if (reading !== mine) return; // it was ended here
    end();
    if (refused && !refused.isPassing) return tell(refused.message);
    tell(refused ? refused.message + " Trying again." : "Cut off: trying again.");
    retry = setTimeout(begin, RETRY_MS);
  }

  function switchPause() {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Continue" : "Pause";
    if (isPaused) {
      end();
      tell("Paused: it continues where it stopped");
    } else begin();
  }

  document.addEventListener("DOMContentLoaded", () => {
    place = document.getElementById("tail");
    if (!place || !place.dataset.tail) return;
    rows = place.querySelector("tbody");
    most = Number(place.dataset.most);
    state = document.getElementById("tail-state");
    pause = document.getElementById("tail-pause");
    const clear = document.getElementById("tail-clear");
    tell("Connecting");
    pause.hidden = clear.hidden = false;
    pause.addEventListener("click", switchPause);
    clear.addEventListener("click", () => { seen = 0; rows.replaceChildren(); count(); });
    document.addEventListener("visibilitychange", () => { if (document.hidden) end(); else begin(); });
    addEventListener("pagehide", end);
    addEventListener("pageshow", event => { if (event.persisted) begin(); });
    begin();
  });
})();
