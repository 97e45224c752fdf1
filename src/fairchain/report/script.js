// What flows through a state lights up while one points at it or reaches it with the keyboard; commands can be copied.
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
