"use strict";
// Draws the figures, and keeps them in the colours of the page.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const places = Array.from(document.querySelectorAll(".plot"));
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const logarithmic = {};
  let chosen = null;
  try { chosen = localStorage.getItem("genan-theme"); } catch (error) { /* a page from a file may have no storage */ }

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function paint(theme) {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "light" : "dark";
  }

  // "@ink" and the like become the theme's colours.
  function filled(part, colours) {
    if (typeof part === "string") return colours[part] || part;
    if (Array.isArray(part)) return part.map((each) => filled(each, colours));
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, filled(value, colours)]));
  }

  function layout(name, place) {
    const narrow = place.clientWidth < 520;
    const given = figures[name].layout;
    const axis = {
      gridcolor: colour("--line"), linecolor: colour("--soft"), zerolinecolor: colour("--line"),
      tickfont: { size: narrow ? 11 : 12 }, automargin: true, ticks: "outside", tickcolor: colour("--line"), ticklen: 4,
    };
    const title = (one) => one && { ...one, font: { size: narrow ? 12 : 13 }, standoff: 10 };
    const x = { ...axis, ...given.xaxis, title: title(given.xaxis.title) };
    if (narrow && x.type === "category") x.tickfont = { size: 10 };
    const y = { ...axis, ...given.yaxis };
    x.showgrid = given.barmode === "stack";
    if (name in logarithmic) {
      y.type = logarithmic[name] ? "log" : "linear";
    }
    return {
      ...given, xaxis: x, yaxis: y, dragmode: coarse ? false : "zoom", hovermode: "closest", autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", bargroupgap: 0.06,
      font: { family: colour("--sans"), color: colour("--ink"), size: 13 },
      margin: { l: narrow ? 38 : 52, r: 12, t: 12, b: 40 },
      showlegend: figures[name].data.filter((trace) => trace.showlegend !== false).length > 1,
      legend: { orientation: "h", x: 0, y: 1.03, yanchor: "bottom", font: { size: narrow ? 11 : 12 }, traceorder: "normal" },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") }, align: "left" },
    };
  }

  function draw(place) {
    const name = place.dataset.figure;
    const colours = { "@ink": colour("--ink"), "@soft": colour("--soft"), "@page": colour("--page") };
    if (place.dataset.rows) {
      const legend = place.clientWidth < 520 ? 19 * figures[name].data.length : 38;
      place.style.height = `${105 + legend + 36 * Number(place.dataset.rows)}px`;
    }
    const options = { displaylogo: false, responsive: true, displayModeBar: coarse ? false : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"], showTips: false };
    return Plotly.react(place, filled(figures[name].data, colours), layout(name, place), options);
  }

  async function drawAll() {
    for (const place of places) {
      await draw(place);
      await new Promise((next) => setTimeout(next, 0));
    }
    document.body.dataset.drawn = String(places.length);
  }

  function become(theme) {
    paint(theme);
    return drawAll();
  }

  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("genan-theme", chosen); } catch (error) { /* then it lasts as long as the page */ }
    become(chosen);
  });
  prefersDark.addEventListener("change", (event) => { if (!chosen) become(event.matches ? "dark" : "light"); });
  for (const each of document.querySelectorAll(".log")) {
    const name = each.dataset.for;
    logarithmic[name] = figures[name].layout.yaxis.type === "log";
    each.setAttribute("aria-pressed", String(logarithmic[name]));
    each.addEventListener("click", () => {
      logarithmic[name] = !logarithmic[name];
      each.setAttribute("aria-pressed", String(logarithmic[name]));
      draw(document.getElementById(`plot-${name}`));
    });
  }
  if (!window.matchMedia("(min-width: 70rem)").matches) document.getElementById("contents").open = false;

  let before = null;
  window.addEventListener("beforeprint", () => { before = root.dataset.theme; paint("light"); places.forEach(draw); });
  window.addEventListener("afterprint", () => { if (before) { paint(before); places.forEach(draw); } });

  become(chosen || (prefersDark.matches ? "dark" : "light"));
})();
