#!/usr/bin/env python3
"""check_pages.py [--screenshots DIR] PAGE.html...: opens pages in headless Chromium and says what a
reader would find wrong with them.

Each page is opened 400 and 1280 px wide, in the light and the dark colour scheme. The script prints
one line for each of these problems and ends with 1 if there is any:
  - the browser writes a message to the console, or a script of the page fails;
  - the page asks for anything but itself;
  - the page scrolls sideways, or is larger than 2 MB;
  - text is smaller than 11 px, or its contrast with what is behind it is below 4.5 (3 for large text);
  - texts of a chart overlap, or leave their <svg>.
It needs only Python's standard library. It talks to the browser over a pair of pipes
(--remote-debugging-pipe: JSON messages, each followed by a zero byte). $CHROMIUM names the browser,
otherwise `chromium` or `google-chrome` is used.
"""
import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = (400, 1280)
SCHEMES = ("light", "dark")
MOST_BYTES = 2_000_000
MOST_PICTURED = 12_000  # px of a page in a screenshot; the browser refuses more than about 16,000
TIMEOUT = 120  # seconds for an answer; a busy machine is slow

# Runs inside the page and returns a list of problems.
MEASURE = r"""
(() => {
  const problems = [];
  const say = (text) => { if (problems.length < 20) problems.push(text); };
  const shown = (text) => JSON.stringify(text.trim().slice(0, 40));
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth)
    say(`the page is ${root.scrollWidth} px wide and scrolls sideways`);

  const rgba = (css) => {
    const n = css.match(/[\d.]+/g).map(Number);
    return n.length < 4 ? [n[0], n[1], n[2], 1] : n;
  };
  const over = (top, below) =>
    [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    const dark = getComputedStyle(root).colorScheme.includes("dark") &&
      matchMedia("(prefers-color-scheme: dark)").matches;
    return layers.reverse().reduce((below, top) => over(top, below), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
  };
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((v) => {
      const s = v / 255;
      return s <= 0.04045 ? s / 12.92 : Math.pow((s + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const check_text = (element, text, size, color, bold) => {
    if (size < 10.99) say(`${shown(text)} is ${size.toFixed(2)} px high`);
    const back = behind(element);
    const [a, b] = [luminance(over(rgba(color), back)), luminance(back)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    const large = size >= 24 || (bold && size >= 18.66);
    if (contrast < (large ? 3 : 4.5)) say(`${shown(text)} has a contrast of ${contrast.toFixed(2)}`);
  };

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || seen.has(element) || element.closest("svg, script, style")) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    check_text(element, node.data, parseFloat(style.fontSize), style.color, parseInt(style.fontWeight) >= 700);
  }

  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const boxes = [];
    for (const text of svg.querySelectorAll("text")) {
      const style = getComputedStyle(text), box = text.getBoundingClientRect();
      if (!text.textContent.trim()) continue;
      const scale = text.getScreenCTM().a;
      check_text(text, text.textContent, parseFloat(style.fontSize) * scale, style.fill, false);
      if (box.width < 1) say(`${shown(text.textContent)} has no width: is there a font?`);
      if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5 ||
          box.bottom > frame.bottom + 0.5)
        say(`${shown(text.textContent)} leaves its chart`);
      for (const [other, name] of boxes) {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 0.5 && high > 0.5) say(`${shown(text.textContent)} overlaps ${shown(name)}`);
      }
      boxes.push([box, text.textContent]);
    }
  }
  return problems;
})()
"""


class Browser:
    """A headless Chromium with one empty tab."""

    def __init__(self, program, folder):
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def pipes():  # the browser reads from descriptor 3 and writes to 4
            low, high = os.dup2(to_browser, 100), os.dup2(from_browser, 101)
            os.dup2(low, 3)
            os.dup2(high, 4)

        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                 "--user-data-dir=" + folder, "about:blank"]
        self.process = subprocess.Popen([program, *flags], preexec_fn=pipes, pass_fds=(3, 4),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.events = b"", 0, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")

    session = None

    def message(self):
        """Returns the next message of the browser."""
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self.rest:
            if not select.select([self.inp], [], [], max(0, end - time.monotonic()))[0]:
                sys.exit("check_pages.py: the browser does not answer")
            part = os.read(self.inp, 1 << 20)
            if not part:
                sys.exit("check_pages.py: the browser has ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while (answer := self.message()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            sys.exit(f"check_pages.py: {method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url):
        """Opens a page and returns the events until it has loaded."""
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())
        return self.events

    def close(self):
        self.process.kill()
        self.process.wait()


def problem_of(event, url):
    """Returns what is wrong according to an event of the browser, or None."""
    method, params = event.get("method"), event.get("params", {})
    if method == "Runtime.consoleAPICalled":
        return "console: " + str([a.get("value") for a in params["args"]])
    if method == "Runtime.exceptionThrown":
        return "a script failed: " + params["exceptionDetails"]["text"]
    if method == "Log.entryAdded":
        return "console: " + params["entry"]["text"]
    if method == "Network.requestWillBeSent":
        asked = params["request"]["url"]
        if asked != url and not asked.startswith("data:"):
            return "asks for " + asked
    return None


def check(browser, page, screenshots):
    problems = []
    if page.stat().st_size > MOST_BYTES:
        problems.append(f"{page}: has {page.stat().st_size:,} bytes")
    url = page.resolve().as_uri()
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                         deviceScaleFactor=1, mobile=False)
            browser.call("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": scheme}])
            events = list(browser.open(url))
            found = [p for p in (problem_of(e, url) for e in events) if p]
            result = browser.call("Runtime.evaluate", expression=MEASURE, returnByValue=True)
            if "exceptionDetails" in result:
                sys.exit(f"check_pages.py: {result['exceptionDetails']}")
            found += result["result"]["value"]
            problems += [f"{page}: {width} px, {scheme}: {problem}" for problem in found]
            if screenshots:
                size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
                clip = {"x": 0, "y": 0, "width": width, "scale": 1,
                        "height": min(size["height"], MOST_PICTURED)}
                image = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
                name = f"{page.stem}-{width}-{scheme}.png"
                (screenshots / name).write_bytes(base64.b64decode(image["data"]))
    return problems


def main():
    parser = argparse.ArgumentParser(description="Checks pages in headless Chromium.")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE.html")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR", help="save pictures there")
    arguments = parser.parse_args()
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        sys.exit("check_pages.py: no browser found; install chromium")
    problems = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            for page in arguments.pages:
                problems += check(browser, page, arguments.screenshots)
        finally:
            browser.close()
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)


main()
