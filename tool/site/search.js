// Search without a server: every word must occur in an entry; words in its title count most.
const box = document.getElementById("search");
const results = document.getElementById("results");
const root = document.body.dataset.root;

function score(entry, words) {
  const title = entry[0].toLowerCase();
  const text = entry[2].toLowerCase();
  let sum = 0;
  for (const word of words) {
    if (title === word) sum += 20;
    else if (title.split(/\W+/).includes(word)) sum += 10;
    else if (title.includes(word)) sum += 5;
    else if (text.includes(word)) sum += 1;
    else return 0;
  }
  return sum;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (at > 0 ? "…" : "") + text.slice(at, at + 160);
}

function show() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length === 0 ? [] : SEARCH_INDEX.map((entry) => [score(entry, words), entry])
    .filter(([points]) => points > 0).sort((a, b) => b[0] - a[0]).slice(0, 20);
  results.replaceChildren(...found.map(([, [title, link, text]]) => {
    const item = document.createElement("li");
    const anchor = document.createElement("a");
    const detail = document.createElement("small");
    anchor.href = root + "/" + link;
    anchor.textContent = title;
    detail.textContent = excerpt(text, words[0]);
    anchor.append(detail);
    item.append(anchor);
    return item;
  }));
  if (words.length > 0 && found.length === 0) {
    const item = document.createElement("li");
    item.textContent = "Nothing found";
    results.append(item);
  }
  results.hidden = words.length === 0;
}

box.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
  if (event.key === "Escape") {
    box.value = "";
    show();
  }
  if (event.key === "Enter" && document.activeElement === box) results.querySelector("a")?.click();
});
