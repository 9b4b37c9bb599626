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

document.addEventListener("pointerover", (event) => {
  const owner = event.target.closest("[data-tip]");
  if (owner) showTip(owner.dataset.tip, event.clientX, event.clientY);
});
document.addEventListener("pointerout", (event) => { if (event.target.closest("[data-tip]")) hideTip(); });
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
  const show = (index) => {
    sections.forEach((section, at) => { section.hidden = at !== index; });
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", at === index);
      tab.tabIndex = at === index ? 0 : -1;
    });
    onShow(sections[index]);
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
  document.querySelectorAll(".top nav a[data-part]").forEach((link) => {
    link.addEventListener("click", (event) => {
      const visible = sections.find((section) => !section.hidden);
      const target = visible && visible.querySelector(`[data-part="${link.dataset.part}"]`);
      if (!target) return;
      event.preventDefault();
      target.scrollIntoView();
      target.focus({ preventScroll: true });
    });
  });
  if (sections.length) show(0);
}

function saveFile(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = html("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 4000);
}
