(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const tell = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; tell(); });
  dark.addEventListener("change", tell);
  tell();
  for (const choice of document.querySelectorAll(".choice")) {
    const tabs = [...choice.querySelectorAll("button")];
    const figures = [...choice.querySelectorAll("figure")];
    const show = (at) => {
      tabs.forEach((tab, place) => tab.setAttribute("aria-pressed", String(place === at)));
      figures.forEach((figure, place) => { figure.hidden = place !== at; });
    };
    tabs.forEach((tab, place) => tab.addEventListener("click", () => show(place)));
    show(0);
  }
})();
