// A plot says the values at the place that the pointer is at.
"use strict";
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);

const spoken = (value, percent) => percent ? `${+(100 * value).toPrecision(3)} %` : `${+value.toPrecision(4)}`;
const nearest = (values, wanted) =>
  values.reduce((best, value, at) => Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? at : best, 0);

for (const svg of document.querySelectorAll("svg[data-plot]")) {
  const plot = JSON.parse(svg.dataset.plot);
  const cursor = svg.querySelector(".cursor");
  const [left, right] = plot.span, [low, high] = plot.x;
  const all = [...new Set(plot.series.flatMap((one) => one.x))].sort((a, b) => a - b);

  const hide = () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); };
  const show = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = all[nearest(all, low + ((event.clientX - box.left) * scale - left) / (right - left) * (high - low))];
    const at = left + (x - low) / (high - low) * (right - left);
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    cursor.setAttribute("visibility", "visible");
    const step = (high - low) / 40;
    const lines = plot.series.flatMap((one) => {
      const place = nearest(one.x, x);
      const here = plot.names.length ? Math.round(one.x[place]) === Math.round(x) : Math.abs(one.x[place] - x) <= step;
      if (!here) return [];
      const line = document.createElement("div"), dot = document.createElement("i");
      dot.className = `c${one.colour}`;
      line.append(dot, `${one.name}: ${spoken(one.y[place], plot.percent)}`);
      return [line];
    });
    const head = document.createElement("b");
    head.textContent = plot.names.length ? `${plot.names[Math.round(x)]} ${plot.label}` : `${plot.label} ${spoken(x)}`;
    tip.replaceChildren(head, ...lines.slice(0, 16));
    tip.hidden = false;
    const page = document.documentElement.clientWidth;
    const beside = box.left + at / scale + 12;
    const wide = tip.offsetWidth;
    const put = beside + wide > page - 8 ? Math.max(8, box.left + at / scale - 12 - wide) : beside;
    tip.style.left = `${Math.min(put, page - wide - 8) + scrollX}px`;
    tip.style.top = `${box.top + scrollY + 8}px`;
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointercancel", hide);
}
