// What flows through a state lights up while one points at it or reaches it with the keyboard; commands can be copied;
// tables can be sorted and filtered; what is wider than the screen says so; folded parts are printed open.
"use strict";
for (const picture of document.querySelectorAll("svg.flow")) {
  const ribbons = [...picture.querySelectorAll(".ribbon")];
  for (const state of picture.querySelectorAll(".state")) {
    const node = state.dataset.node;
    const show = (on) => {
      picture.classList.toggle("off", on);
      for (const ribbon of ribbons) {
        ribbon.classList.toggle("on", on && (ribbon.dataset.from === node || ribbon.dataset.to === node));
      }
    };
    for (const event of ["mouseenter", "focus"]) state.addEventListener(event, () => show(true));
    for (const event of ["mouseleave", "blur"]) state.addEventListener(event, () => show(false));
  }
}
for (const block of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    // A page that is opened from disk has no clipboard of its own; a selection can be copied everywhere.
    getSelection().selectAllChildren(block);
    document.execCommand("copy");
    button.textContent = "Copied";
  });
  block.after(button);
}
const numeric = (text) => parseFloat(text.replace(/,/g, ""));
for (const table of document.querySelectorAll("table[data-tools]")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    // Not a button element: with one in it, a browser does not repeat the header on each printed page.
    const button = document.createElement("span");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.click();
    });
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [row, row.cells[column].textContent]);
      rows.sort(([, a], [, b]) => (head.classList.contains("number") ? numeric(a) - numeric(b) : a.localeCompare(b)) * (up ? 1 : -1));
      body.append(...rows.map(([row]) => row));
    });
  });
  // Cells as a spreadsheet takes them from the clipboard.
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "copy";
  copy.textContent = "Copy table";
  copy.addEventListener("click", () => {
    const area = document.createElement("textarea");
    const rows = [...table.rows].filter((row) => !row.hidden);
    // No name of a group acts as a formula there.
    const line = (text) => text.replace(/\s+/g, " ").trim().replace(/^(?=[=+@]|-(?![\d.]))/, "'");
    area.value = rows.map((row) => [...row.cells].map((cell) => line(cell.innerText)).join("\t")).join("\n");
    table.after(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    copy.textContent = "Copied";
  });
  table.parentElement.after(copy);
  if (body.rows.length > 8) {
    const filter = document.createElement("input");
    filter.type = "search";
    filter.className = "filter";
    filter.placeholder = "Filter rows";
    filter.setAttribute("aria-label", "Filter rows of the table");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.parentElement.before(filter);
  }
}
const hints = () => {
  for (const frame of document.querySelectorAll(".scroll")) {
    const cut = frame.scrollWidth > frame.clientWidth + 1;
    const hint = frame.nextElementSibling?.classList.contains("hint") ? frame.nextElementSibling : null;
    if (cut && !hint) {
      const told = document.createElement("p");
      told.className = "hint";
      told.textContent = "\u2194 wider than the screen: scroll sideways";
      frame.after(told);
    } else if (!cut && hint) hint.remove();
  }
};
hints();
addEventListener("resize", hints);
for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", hints);
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
