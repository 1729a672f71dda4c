"use strict";
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);
  const darkMode = window.matchMedia("(prefers-color-scheme: dark)");

  function make(tag, attributes, parent, text) {
    const inSvg = ["svg", "g", "path", "line", "text", "rect", "clipPath", "title"].includes(tag);
    const node = inSvg ? document.createElementNS(NS, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  function brief(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 0.01 || size >= 1e6)) return value.toExponential(2);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(3)));
  }

  const good = (value) => value !== null && value > 0;

  class Chart {
    constructor(box, spec) {
      this.box = box;
      this.spec = spec;
      this.kind = Object.keys(spec.kinds)[0];
      this.shown = new Set(spec.series.filter((one) => one.shown).map((one) => one.key));
      this.cursor = null;
      box.replaceChildren();
      this.controls();
      this.frame = make("div", {}, box);
      this.frame.style.position = "relative";
      this.values = make("div", { class: "values", "aria-live": "polite", hidden: "" }, box);
      this.draw();
      new ResizeObserver(() => this.resized()).observe(box);
      darkMode.addEventListener("change", () => { this.paintButtons(); this.draw(); });
    }

    controls() {
      const bar = make("div", { class: "controls" }, this.box);
      const axis = make("span", { class: "axis", role: "group", "aria-label": "Horizontal axis" }, bar);
      this.axisButtons = Object.entries(this.spec.kinds).map(([kind, label]) => {
        const button = make("button", { type: "button", "data-axis": kind }, axis, label);
        button.addEventListener("click", () => { this.kind = kind; this.cursor = null; this.paintButtons(); this.draw(); });
        return button;
      });
      this.seriesButtons = this.spec.series.map((one) => {
        const button = make("button", { type: "button", "data-series": one.key, title: one.note }, bar);
        button.addEventListener("click", () => {
          if (!this.shown.delete(one.key)) this.shown.add(one.key);
          this.paintButtons();
          this.draw();
        });
        return button;
      });
      this.paintButtons();
    }

    paintButtons() {
      for (const button of this.axisButtons) button.setAttribute("aria-pressed", button.dataset.axis === this.kind);
      this.seriesButtons.forEach((button, index) => {
        const one = this.spec.series[index];
        button.setAttribute("aria-pressed", this.shown.has(one.key));
        button.replaceChildren(this.swatch(one), one.label);
      });
    }

    swatch(one) {
      const svg = make("svg", { class: "swatch", width: 30, height: 10, viewBox: "0 0 30 10", "aria-hidden": "true" });
      svg.style.cssText = "background:none;width:30px;height:10px;border-radius:0";
      make("line", { x1: 0, x2: 30, y1: 5, y2: 5, ...this.stroke(one) }, svg);
      return svg;
    }

    stroke(one) {
      const width = one.style.width * 1.3;
      return {
        stroke: darkMode.matches ? one.style.dark : one.style.light,
        "stroke-width": width,
        "stroke-dasharray": one.style.dash.map((part) => part * width).join(" "),
        fill: "none",
      };
    }

    visible() { return this.spec.series.filter((one) => this.shown.has(one.key)); }

    scales() {
      const xs = [], ys = [];
      for (const one of this.visible()) {
        one.mid.forEach((value, i) => { if (good(value)) { ys.push(value); xs.push(one.x[this.kind][i]); } });
      }
      if (!xs.length) { xs.push(this.spec.logx ? 0.1 : 0, 1); ys.push(0.1, 1); }
      const log = this.spec.logx ? Math.log10 : (value) => value;
      const [x0, x1] = [Math.min(...xs), Math.max(...xs)].map(log);
      const [y0, y1] = [Math.log10(Math.min(...ys)) - 0.15, Math.log10(Math.max(...ys)) + 0.15];
      const { left, right, top, bottom } = this.edges;
      const x = (value) => left + ((log(value) - x0) / (x1 - x0 || 1)) * (right - left);
      const y = (value) => bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (bottom - top);
      const back = (pixel) => {
        const value = x0 + ((pixel - left) / (right - left)) * (x1 - x0);
        return this.spec.logx ? 10 ** value : value;
      };
      return { x, y, back, x0, x1, y0, y1 };
    }

    resized() {
      if (Math.abs(this.box.clientWidth - this.width) > 2) this.draw();
    }

    draw() {
      this.width = this.box.clientWidth || 640;
      const height = Math.max(260, Math.min(430, this.width * 0.55));
      this.edges = { left: 58, right: this.width - 30, top: 12, bottom: height - 40 };
      const label = `${this.spec.title}: ${this.spec.y} against ${this.spec.kinds[this.kind]}`;
      const svg = make("svg", { viewBox: `0 0 ${this.width} ${height}`, role: "img", tabindex: "0", "aria-label": label });
      this.frame.replaceChildren(svg);
      this.scale = this.scales();
      this.axes(svg, height);
      const clip = `clip-${Math.random().toString(36).slice(2)}`;
      const { left, right, top, bottom } = this.edges;
      make("rect", { x: left, y: top, width: right - left, height: bottom - top }, make("clipPath", { id: clip }, svg));
      const plot = make("g", { "clip-path": `url(#${clip})` }, svg);
      for (const one of this.visible()) this.curve(plot, one);
      this.line = make("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" }, svg);
      svg.addEventListener("pointermove", (event) => this.point(event, svg));
      svg.addEventListener("pointerdown", (event) => this.point(event, svg));
      svg.addEventListener("pointerleave", () => this.hide());
      svg.addEventListener("blur", () => this.hide());
      svg.addEventListener("keydown", (event) => this.key(event));
      this.values.hidden = true;
    }

    curve(plot, one) {
      const { x, y } = this.scale;
      const xs = one.x[this.kind];
      const usable = xs.map((_, i) => i).filter((i) => good(one.mid[i]));
      const path = (values, order) => order.map((i, n) => `${n ? "L" : "M"}${x(xs[i]).toFixed(1)},${y(values[i]).toFixed(1)}`).join("");
      const band = usable.filter((i) => good(one.low[i]) && good(one.high[i]));
      const group = make("g", { "data-curve": one.key }, plot);
      if (band.length > 1) {
        const outline = path(one.high, band) + path(one.low, [...band].reverse()).replace("M", "L") + "Z";
        make("path", { d: outline, fill: darkMode.matches ? one.style.dark : one.style.light, opacity: 0.13 }, group);
      }
      make("path", { d: path(one.mid, usable), ...this.stroke(one) }, group);
    }

    axes(svg, height) {
      const { left, right, top, bottom } = this.edges;
      const { x, y, x0, x1, y0, y1 } = this.scale;
      for (let power = Math.ceil(y0); power <= Math.floor(y1); power++) {
        const at = y(10 ** power);
        make("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }, svg);
        make("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, svg, power === 0 ? "1" : `1e${power}`);
      }
      for (const value of this.ticks(x0, x1)) {
        const at = x(value);
        make("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }, svg);
        make("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, svg, brief(value));
      }
      make("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, svg, this.spec.kinds[this.kind]);
      const middle = (top + bottom) / 2;
      make("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, svg, this.spec.y);
    }

    ticks(x0, x1) {
      const ticks = [];
      if (this.spec.logx) {
        for (const one of this.visible()) for (const value of one.x[this.kind]) if (!ticks.includes(value)) ticks.push(value);
        return ticks;
      }
      const rough = (x1 - x0) / Math.max(3, Math.min(7, this.width / 110));
      const power = 10 ** Math.floor(Math.log10(rough || 1));
      const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= rough) || power;
      for (let value = Math.ceil(x0 / step) * step; value <= x1 + step / 1e6; value += step) ticks.push(value);
      return ticks;
    }

    point(event, svg) {
      const area = svg.getBoundingClientRect();
      const pixel = ((event.clientX - area.left) / area.width) * this.width;
      this.show(Math.min(this.edges.right, Math.max(this.edges.left, pixel)));
    }

    key(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.hide();
      if (!step) return;
      event.preventDefault();
      const { left, right } = this.edges;
      const from = this.cursor === null ? (step > 0 ? left : right) : this.cursor + (step * (right - left)) / 40;
      this.show(Math.min(right, Math.max(left, from)));
    }

    show(pixel) {
      this.cursor = pixel;
      const at = this.scale.back(pixel);
      this.line.setAttribute("x1", pixel);
      this.line.setAttribute("x2", pixel);
      this.line.setAttribute("visibility", "visible");
      const rows = this.visible().map((one) => {
        const xs = one.x[this.kind];
        let nearest = 0;
        xs.forEach((value, i) => { if (Math.abs(value - at) < Math.abs(xs[nearest] - at)) nearest = i; });
        return [one, xs.length && at <= xs[xs.length - 1] * 1.001 ? one.mid[nearest] : null];
      });
      rows.sort((a, b) => (a[1] ?? Infinity) - (b[1] ?? Infinity));
      this.values.replaceChildren();
      make("strong", {}, this.values, `${this.spec.kinds[this.kind]} ${brief(at)}`);
      for (const [one, value] of rows) {
        const line = make("div", {}, this.values);
        const name = make("span", {}, line);
        name.append(this.swatch(one), ` ${one.label}`);
        make("span", {}, line, brief(value));
      }
      this.values.hidden = false;
      const area = this.frame.getBoundingClientRect(), box = this.box.getBoundingClientRect();
      const side = pixel < this.width / 2 ? pixel + 14 : pixel - 14 - this.values.offsetWidth;
      this.values.style.top = `${area.top - box.top + 12}px`;
      this.values.style.left = `${Math.max(0, Math.min(this.width - this.values.offsetWidth, side))}px`;
    }

    hide() {
      this.cursor = null;
      this.line.setAttribute("visibility", "hidden");
      this.values.hidden = true;
    }
  }

  for (const box of document.querySelectorAll("[data-chart]")) new Chart(box, data[box.dataset.chart]);
})();
