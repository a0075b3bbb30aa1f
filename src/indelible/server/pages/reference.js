// Searches the page: shows what holds every word that is typed, and says how much that is.
const search = document.getElementById("search");
if (search) {
  const shown = [...document.querySelectorAll("[data-words]")];
  const menus = [...document.querySelectorAll("#menu ul")];
  const found = document.getElementById("found");
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const each of shown) each.hidden = !words.every((word) => each.dataset.words.includes(word));
    for (const menu of menus) menu.previousElementSibling.hidden = !menu.querySelector("li:not([hidden])");
    const count = shown.filter((each) => each.classList.contains("operation") && !each.hidden).length;
    found.textContent = words.length ? `${count} ${count === 1 ? "operation" : "operations"}` : "";
  });
}
