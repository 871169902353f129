"use strict";
(() => {
  // Values where somebody points.
  const tip = document.getElementById("tip");
  document.addEventListener("pointermove", (event) => {
    const of = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !of;
    if (!of) return;
    tip.textContent = of.dataset.tip;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 16 + box.width < innerWidth;
    tip.style.left = Math.max(4, right ? event.clientX + 16 : event.clientX - box.width - 12) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 4)) + "px";
  });
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Sorting.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => {
          const cell = row.cells[column];
          const text = cell.dataset.v;
          if (text !== undefined) return Number(text);
          // Words sort as words; a figure without a value is not known.
          return cell.classList.contains("w") && column < heads.length - 1 ? cell.textContent : Infinity;
        };
        const order = (a, b) => {
          const [x, y] = [value(a), value(b)];
          // What is not known is last, whatever the order.
          if (x === Infinity || y === Infinity) return x === y ? 0 : x === Infinity ? 1 : -1;
          const by = typeof x === "number" ? x - y : x.localeCompare(y);
          return down ? -by : by;
        };
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort(order));
      });
    });
  }

  // Copying the command.
  const command = document.getElementById("command");
  if (command) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command.textContent);
        button.textContent = "Copied";
      } catch {
        // A file on disk may not write to the clipboard in every browser: what is selected can be copied by hand.
        getSelection().selectAllChildren(command);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    command.closest(".command").append(button);
  }
})();
