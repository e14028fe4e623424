// Sends the forms of the page without loading it again, and adds keys. Everything that is shown comes from the server.
"use strict";
(() => {
  const SLOW = 150, STILL = 2000, PATIENCE = 10000; // milliseconds
  const find = (selector) => document.querySelector(selector);
  const field = () => find("#says");
  const picks = () => [...document.querySelectorAll("#shop a.pick")];
  const texts = JSON.parse(document.body.dataset.texts);
  const say = (text) => { find("#status").textContent = text; };
  const random = () => [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
  let busy = false;
  let recalled = 0; // how many texts back
  let draft = ""; // what was typed before the first of them

  addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || form.enctype === "multipart/form-data") return; // a picture opens a new page
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    if (!("retry" in form.dataset)) body.set("key", random());
    send(form.action, body);
  });

  // The part of the page that is answered, and the response: neither, if none comes. Nothing else is sent meanwhile.
  async function ask(address, options) {
    const aborting = new AbortController();
    const timers = [
      setTimeout(() => find("#shop").classList.add("slow"), SLOW),
      setTimeout(() => say(texts.still), STILL),
      setTimeout(() => aborting.abort(), PATIENCE),
    ];
    busy = true;
    find("#shop").setAttribute("aria-busy", "true");
    try {
      const response = await fetch(address, { ...options, headers: { "X-Fragment": "1" }, signal: aborting.signal });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      return { response, part: page.querySelector("#shop, #message") };
    } catch {
      return { response: null, part: null };
    } finally {
      timers.forEach(clearTimeout);
      busy = false;
      find("#shop").removeAttribute("aria-busy");
      find("#shop").classList.remove("slow");
    }
  }

  async function send(action, body) {
    if (busy) return;
    const sent = body.get("chip") || body.get("wish") ? null : body.get("says"); // a suggestion replaces what is typed
    const text = body.get("chip") || sent;
    const pending = text && action.endsWith("/say") ? echo(text) : null;
    const { response, part } = await ask(action, { method: "POST", body });
    if (part?.id === "shop") {
      if (response.redirected) history.replaceState(null, "", response.url);
      const count = picks().length;
      const nexts = { more: () => picks()[count], consent: () => find(".consent [aria-pressed=true]") };
      show(part, typed(sent), nexts[action.split("/").pop()]);
      return;
    }
    pending?.remove();
    report(part, () => send(action, body), Number(response?.headers.get("Retry-After") || 0));
  }

  // What was typed but not sent.
  function typed(sent = null) {
    const value = field()?.value ?? "";
    return value === field()?.defaultValue || value === sent ? "" : value;
  }

  // Shows a part with words that were typed. Where the shopper stays in place, `next` finds what gets the focus.
  function show(part, keep, next) {
    const filters = find(".filters")?.open;
    find("#shop").replaceWith(part);
    if (filters !== undefined && find(".filters")) find(".filters").open = filters;
    if (field() && keep) field().value = keep;
    recalled = 0;
    const message = find("#message").textContent.trim();
    say([message, part.dataset.status].filter(Boolean).join(" "));
    if (next?.()) {
      next().focus({ preventScroll: true });
      toEnd();
      return;
    }
    const top = find("#found");
    if (field() && !matchMedia("(pointer: coarse)").matches) field().focus({ preventScroll: true });
    else top.focus({ preventScroll: true }); // the field would open the keyboard of a phone
    const seen = message ? find("#message") : top;
    const { top: y } = seen.getBoundingClientRect();
    const above = find(".composer")?.getBoundingClientRect().bottom ?? 0; // it lies over what is scrolled
    if (y < Math.max(0, above) || y > innerHeight * 0.6) seen.scrollIntoView();
    toEnd();
  }

  // Shows a message of the server, or that there is no answer, with a way to send the same request again.
  function report(part, again, wait) {
    if (!part) {
      part = find("#unreachable").content.firstElementChild.cloneNode(true);
      part.querySelector("p").textContent = navigator.onLine
        ? texts.silent
        : texts.offline;
      part.querySelector("button").addEventListener("click", again);
    }
    find("#message").replaceWith(part);
    const button = part.querySelector("[data-retry] button, [type=button]");
    count(button, wait);
    say(part.querySelector("p").textContent);
    (button || part.querySelector("button") || field())?.focus();
    part.scrollIntoView({ block: "nearest" });
  }

  function count(button, seconds) {
    if (!button) return;
    button.setAttribute("aria-disabled", String(seconds > 0));
    button.textContent = seconds > 0 ? texts.wait.replace("{n}", seconds) : texts.again;
    if (seconds > 0) setTimeout(count, 1000, button, seconds - 1);
  }

  addEventListener("click", (event) => {
    if (event.target.closest("[aria-disabled=true]")) { event.preventDefault(); event.stopPropagation(); }
  }, true);

  function echo(text) {
    const turn = document.createElement("li");
    const said = document.createElement("q");
    const line = document.createElement("p");
    said.textContent = text;
    line.append(texts.said, " ", said);
    turn.append(line);
    turn.className = "turn pending";
    find("#log ol")?.append(turn);
    toEnd();
    return turn;
  }

  function toEnd() {
    const log = find("#log");
    if (log) log.scrollTop = log.scrollHeight;
  }

  // Links that change a part of the page, such as to talk about a product.
  addEventListener("click", (event) => {
    const link = event.target.closest("a[data-part]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(link.href);
  });

  async function open(address) {
    if (busy) return;
    const { response, part } = await ask(address);
    if (!response) { report(null, () => open(address), 0); return; }
    if (!response.ok || part?.id !== "shop") { location.assign(address); return; }
    history.replaceState(null, "", address);
    show(part, typed());
    field()?.focus({ preventScroll: true });
  }

  // A menu closes when something else is used.
  const close = (menu) => { for (const one of document.querySelectorAll(".menu[open]")) if (one !== menu) one.open = false; };
  addEventListener("pointerdown", (event) => close(event.target.closest(".menu")));
  addEventListener("focusin", (event) => close(event.target.closest(".menu")));

  addEventListener("keydown", (event) => {
    const at = event.target, text = field();
    const typing = at.matches("input:not([type=radio], [type=checkbox]), select, textarea");
    if (event.isComposing || event.altKey || event.metaKey || !text) return;
    if (event.ctrlKey) {
      if (event.key === "z" && (!typing || (at === text && text.value === text.defaultValue)) && find("#undo")) {
        event.preventDefault();
        find("#undo").requestSubmit(find("#undo button"));
      }
    } else if (at === text && event.key === "Escape") {
      if (text.value) text.value = "";
      else (picks()[0] || find("#found")).focus();
    } else if (at === text && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      const said = [...document.querySelectorAll("[data-said]")].map((one) => one.textContent);
      const before = recalled;
      recalled = Math.max(0, Math.min(said.length, recalled + (event.key === "ArrowUp" ? 1 : -1)));
      if (recalled === before) return;
      if (!before) draft = text.value;
      text.value = recalled ? said[said.length - recalled] : draft;
      event.preventDefault();
    } else if (event.key === "Escape" && at.closest(".menu[open]")) {
      at.closest(".menu").open = false;
      at.closest(".menu").querySelector("summary").focus();
    } else if (event.key === "Escape" && !typing) {
      text.focus();
    } else if (at.matches(".pick") && event.key.startsWith("Arrow")) {
      const all = picks(), row = all.filter((one) => one.closest(".card").offsetTop === all[0].closest(".card").offsetTop);
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row.length, ArrowDown: row.length }[event.key];
      event.preventDefault();
      all[all.indexOf(at) + step]?.focus();
    } else if (at.closest(".grid") && /^[1-8]$/.test(event.key)) {
      const picked = document.querySelectorAll("#shop [data-about]")[event.key - 1];
      if (picked) { event.preventDefault(); picked.click(); }
    }
  });

  if (matchMedia("(min-width: 60rem)").matches) find(".filters")?.setAttribute("open", "");
  toEnd();
})();
