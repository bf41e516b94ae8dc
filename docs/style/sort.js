// Sorts a table by a column when its head is clicked: numbers by value, in the other direction the next time.
document.addEventListener("click", (event) => {
  const head = event.target.closest("article table th");
  if (!head) return;
  const table = head.closest("table");
  const column = [...head.parentNode.children].indexOf(head);
  const down = head.dataset.sorted !== "down";
  for (const each of head.parentNode.children) delete each.dataset.sorted;
  head.dataset.sorted = down ? "down" : "up";
  const key = (row) => row.children[column].textContent.trim();
  const number = (text) => (text === "" ? -1 : Number(text.replaceAll(",", "")));
  const order = (a, b) => {
    const [x, y] = [number(key(a)), number(key(b))];
    const least = Number.isNaN(x) || Number.isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
    return down ? -least : least;
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(order));
});
