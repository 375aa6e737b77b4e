// The dashboard works without this file; it adds the keyboard, live parts, charts and questions before deletions.
"use strict";

(() => {
  // ── live: one stream per visible page; a hidden tab closes it, as browsers allow only six connections per server ──

  const streamTemplate = document.getElementById("stream")?.cloneNode(true);

  function announceChange() {
    htmx.trigger(document.body, "changed");
  }

  document.addEventListener("htmx:sseMessage", announceChange);
  document.addEventListener("visibilitychange", () => {
    if (!streamTemplate) return;
    const open = document.getElementById("stream");
    if (document.hidden) {
      if (open) htmx.remove(open);
    } else if (!open) {
      const stream = streamTemplate.cloneNode(true);
      document.body.append(stream);
      htmx.process(stream);
      announceChange();
    }
  });

  // On a phone the menu is wider than the screen.
  document.querySelector(".pages [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

  // ── keyboard: / to search, g and a letter for a page, ? for help ──

  let goPressedAt = 0;
  const GO_MILLISECONDS = 1500;

  function isTyping(target) {
    return target.matches?.("input, textarea, select, [contenteditable]");
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (Date.now() - goPressedAt < GO_MILLISECONDS && /^[a-z]$/.test(event.key)) {
      const link = document.querySelector(`[data-key="${event.key}"]`);
      goPressedAt = 0;
      if (link) {
        event.preventDefault();
        link.click();
      }
    } else if (event.key === "g") {
      goPressedAt = Date.now();
    } else if (event.key === "/") {
      event.preventDefault();
      (document.querySelector("main input[name=q]") || document.getElementById("find")).focus();
    } else if (event.key === "?") {
      event.preventDefault();
      document.getElementById("keys").showModal();
    }
  });

  // ── buttons ──

  document.addEventListener("click", (event) => {
    const opener = event.target.closest?.("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens).showModal();
  });

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // ── search while typing: fields that are empty do not go into the address ──

  document.addEventListener("htmx:configRequest", (event) => {
    const { verb, parameters } = event.detail;
    if (verb !== "get") return;
    for (const name of Object.keys(parameters)) if (parameters[name] === "") delete parameters[name];
  });

  // ── charts: <div class="chart" data-chart='{"times": […], "series": [{"label": "p50", "values": […]}], "unit": "h"}'> ──
  // Instead of times: "first" and "step", both in seconds.
  // In a live part, which would wipe out what is drawn in it, only the data stands: data-chart-in names the place.

  const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4"];
  const charts = new Map();

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function axis(unit) {
    const line = { stroke: colour("--chart-grid"), width: 1 };
    return {
      stroke: colour("--quiet"), grid: line, ticks: line, size: unit ? labelWidth : 56,
      values: unit ? (_, values) => values.map((value) => `${value} ${unit}`) : undefined,
    };
  }

  function labelWidth(_, labels) {
    const longest = Math.max(0, ...(labels ?? []).map((label) => label.length));
    return Math.max(56, 20 + 8 * longest);
  }

  function clock(seconds) {
    return new Date(seconds * 1000).toTimeString().slice(0, 5);
  }

  function drawChart(place) {
    const text = place.dataset.chart;
    const drawn = charts.get(place);
    if (drawn && drawn.text === text) return;
    if (drawn) drawn.plot.destroy();
    const chart = JSON.parse(text);
    chart.times ??= chart.series[0].values.map((_, place) => chart.first + place * chart.step);
    const paper = document.getElementById(place.dataset.chartIn) || place;
    paper.replaceChildren();
    const summary = document.getElementById(`${paper.id}-summary`);
    if (summary && chart.summary) summary.textContent = chart.summary;
    const options = {
      width: Math.max(paper.clientWidth, 200), height: 180, cursor: { drag: { x: false, y: false } },
      axes: [{ ...axis(""), values: (_, times) => times.map(clock) }, axis(chart.unit)], legend: { live: false },
      series: [{}, ...chart.series.map((one, index) => ({
        label: one.label, stroke: colour(COLOURS[index]), width: 2, dash: index ? [6, 4] : undefined,
        points: { show: chart.times.length < 3 },
      }))],
    };
    const data = [chart.times, ...chart.series.map((one) => one.values)];
    charts.set(place, { text, plot: new uPlot(options, data, paper) });
  }

  function drawCharts() {
    if (typeof uPlot === "undefined") return;
    for (const place of [...charts.keys()]) if (!place.isConnected) charts.delete(place);
    document.querySelectorAll("[data-chart]").forEach(drawChart);
  }

  function redrawCharts() {
    charts.forEach(({ plot }) => plot.destroy());
    charts.clear();
    drawCharts();
  }

  let resizing = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(redrawCharts, 200);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
  document.addEventListener("htmx:afterSettle", drawCharts);
  if (document.readyState === "complete") drawCharts();
  else window.addEventListener("load", drawCharts);
})();
