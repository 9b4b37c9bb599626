// The page's floor: data, element makers, tooltip, theme, tabs between tasks. All text enters as text, never as markup.
const DATA = JSON.parse(document.getElementById("volta-data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const tip = document.body.appendChild(html("div", { id: "tip", role: "status", hidden: true }));

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.max(6, Math.min(x + 14, window.innerWidth - box.width - 6));
  const above = y + 18 + box.height > window.innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(6, above ? y - box.height - 12 : y + 18)}px`;
}
const hideTip = () => { tip.hidden = true; };

// A finger has no hover: what a mouse sees while it points, a tap shows until the next tap or scroll.
const isTouch = (event) => event.pointerType === "touch";
document.addEventListener("pointerover", (event) => {
  const owner = event.target.closest("[data-tip]");
  if (owner) showTip(owner.dataset.tip, event.clientX, event.clientY);
});
document.addEventListener("pointerout", (event) => { if (!isTouch(event) && event.target.closest("[data-tip]")) hideTip(); });
document.addEventListener("pointerdown", (event) => { if (isTouch(event) && !event.target.closest("[data-tip], .plot svg")) hideTip(); });
document.addEventListener("focusin", (event) => {
  const owner = event.target.closest("[data-tip]");
  if (!owner || !owner.matches(":focus-visible")) return;
  const box = owner.getBoundingClientRect();
  showTip(owner.dataset.tip, box.left, box.bottom - 12);
});
document.addEventListener("focusout", hideTip);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
window.addEventListener("scroll", hideTip, { passive: true });

function remember(key, value) { try { localStorage.setItem(key, value); } catch { /* a page from disk may have no storage */ } }
function recall(key) { try { return localStorage.getItem(key); } catch { return null; } }

function startTheme() {
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
  };
  const chosen = recall("volta-theme");
  apply(chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light");
  system.addEventListener("change", (event) => { if (!recall("volta-theme")) apply(event.matches ? "dark" : "light"); });
  button.addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remember("volta-theme", theme);
    apply(theme);
  });
}

function startGroups(onShow) {
  const sections = [...document.querySelectorAll("section.group")];
  const tabs = [...document.querySelectorAll(".groups [role=tab]")];
  const links = [...document.querySelectorAll(".top nav a")];
  const headOf = (link, section) => (link.dataset.part ? section && section.querySelector(`[data-part="${link.dataset.part}"]`) : document.querySelector(link.getAttribute("href")));
  const shown = () => sections.find((section) => !section.hidden);
  const follow = () => {
    // Each part has an address; one that is in another tab opens it, and #results means that of the open tab.
    const name = decodeURIComponent(location.hash.slice(1));
    const target = document.getElementById(name) || (shown() && [...shown().querySelectorAll("[data-part]")].find((head) => head.dataset.part === name));
    if (!target) return;
    const section = target.closest("section.group");
    if (section && section.hidden) show(sections.indexOf(section));
    for (let next = target.nextElementSibling; next && next.tagName !== "H2"; next = next.nextElementSibling) if (next.matches("details.fold")) next.open = true;
    target.scrollIntoView();
  };
  const mark = () => {
    const passed = links.filter((link) => { const head = headOf(link, shown()); return head && head.getBoundingClientRect().top < window.innerHeight * 0.3; });
    const atEnd = window.scrollY > 0 && window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2;
    const current = atEnd ? links.at(-1) : passed.at(-1);
    links.forEach((link) => {
      if ((link === current) === link.hasAttribute("aria-current")) return;
      if (link !== current) { link.removeAttribute("aria-current"); return; }
      link.setAttribute("aria-current", "true");
      const nav = link.parentElement;
      nav.scrollLeft = link.offsetLeft - nav.offsetLeft - (nav.clientWidth - link.clientWidth) / 2;
    });
  };
  const address = () => links.forEach((link) => {
    const head = headOf(link, shown());
    link.hidden = !head;
    if (head) link.href = `#${head.id}`;
  });
  const show = (index) => {
    sections.forEach((section, at) => { section.hidden = at !== index; });
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", at === index);
      tab.tabIndex = at === index ? 0 : -1;
    });
    onShow(sections[index]);
    address();
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => show(index));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (index + step + tabs.length) % tabs.length;
      show(next);
      tabs[next].focus();
    });
  });
  if (sections.length) show(0);
  const arrive = () => { follow(); mark(); };
  arrive();
  window.addEventListener("hashchange", arrive);
  let waiting = false;
  window.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  }, { passive: true });
}

function saveFile(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = html("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 4000);
}
