"""Debian's chromium, for the tests of the page."""

import importlib.util
import os
import pathlib

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from server_process import PATIENCE

CHROMIUM = os.environ.get("SLUICE_CHROMIUM", "/usr/bin/chromium")
DRIVER = os.environ.get("SLUICE_CHROMEDRIVER", "/usr/bin/chromedriver")


class Browser:
    def __init__(self, url, width=1440, height=900, scheme="light", motion="no-preference", flags=(), is_page=True):
        for program in (CHROMIUM, DRIVER):
            assert os.path.exists(program), f"{program} is missing: ./run test --browser installs Debian's chromium and chromium-driver"
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}", "--hide-scrollbars", *flags):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.name = f"{width}-{scheme}"
        self.narrow = width < 800
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=self.narrow)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}])
        self.driver.get(url)
        if is_page:
            self.until(lambda: self.js("return Boolean(window.sluice)"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def cdp(self, command, **values):
        return self.driver.execute_cdp_cmd(command, values)

    def js(self, script, *values):
        return self.driver.execute_script(script, *values)

    def until(self, condition, patience=PATIENCE):
        return WebDriverWait(self.driver, patience, poll_frequency=0.05).until(lambda _: condition())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.until(lambda: next(iter(self.all(selector)), None))

    def keys(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def press(self, selector):
        self.js("arguments[0].click()", self.one(selector))

    def say(self, text):
        self.one("#message").send_keys(text, Keys.ENTER)

    def idle(self):
        self.until(lambda: self.js("return sluice.chat.running === null"))

    def answers(self):
        self.idle()
        return [self.js("return arguments[0].querySelector('.markdown, .tokens')?.textContent ?? ''", e) for e in self.all(".turn.assistant")]

    def picture(self, place):
        if folder := os.environ.get("SLUICE_PAGE_PICTURES"):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(f"{folder}/{self.name}-{place}.png")

    def brightness(self, left, top, width, height):
        """Of each pixel of a part of the window, 0 to 255: what a reader who sees no colours sees of it."""
        png = self.cdp("Page.captureScreenshot", clip={"x": left, "y": top, "width": width, "height": height, "scale": 1})["data"]
        page = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")  # which has no policy that forbids this
        pixels = self.driver.execute_async_script("""
            const [png, done] = arguments;
            fetch('data:image/png;base64,' + png).then((r) => r.blob()).then(createImageBitmap).then((image) => {
              const draw = new OffscreenCanvas(image.width, image.height).getContext('2d');
              draw.drawImage(image, 0, 0);
              const d = draw.getImageData(0, 0, image.width, image.height).data;
              done(Array.from({length: d.length / 4}, (_, i) => 0.299 * d[4 * i] + 0.587 * d[4 * i + 1] + 0.114 * d[4 * i + 2]));
            });""", png)
        self.driver.close()
        self.driver.switch_to.window(page)
        return pixels

    def axe(self):
        """The rules of axe-core that are broken, but for minor ones: who, and where."""
        if not self.js("return typeof window.axe === 'object'"):
            self.js(pathlib.Path(importlib.util.find_spec("axe_core_python").origin).with_name("axe.min.js").read_text())
        self.driver.set_script_timeout(PATIENCE)
        broken = self.driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations.map(
              (v) => [v.impact, v.id, v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary)])), (e) => done([['serious', String(e), []]]));""")
        return [rule for rule in broken if rule[0] in ("serious", "critical")]

    def is_clean(self):
        """No error in the console, nothing wider than the window, and everything that can be used has a name."""
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors, errors
        assert self.js("return document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        nameless = self.js("""
            const named = (e) => (e.getAttribute('aria-label') || e.title || e.textContent || '').trim() !== '' || (e.labels && e.labels.length > 0);
            return [...document.querySelectorAll('button, a[href], input, select, textarea, [role=img], [role=region], canvas')]
              .filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 200));""")
        assert not nameless, nameless
        ids = self.js("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids))


# The contrast of every text that is seen against what is behind it: at least 4.5, of large text 3 (WCAG 2 AA).
CONTRAST = """
const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return c.startsWith('color(srgb') ? [m[0]*255, m[1]*255, m[2]*255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const light = (c) => { const [r, g, b] = c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let n = walker.nextNode(); n; n = walker.nextNode()) {
  const e = n.parentElement, s = getComputedStyle(e);
  if (!n.nodeValue.trim() || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || e.closest('.offscreen, .skip, :disabled, option')) continue;
  const behind = [];
  for (let p = e; p; p = p.parentElement) behind.push(parse(getComputedStyle(p).backgroundColor));
  let ground = [255, 255, 255, 1];
  for (const b of behind.reverse()) ground = over(b, ground);
  const text = over(parse(s.color), ground), [x, y] = [light(text), light(ground)].sort((a, b) => b - a);
  const ratio = (x + 0.05) / (y + 0.05), size = parseFloat(s.fontSize);
  if (ratio < (size >= 24 || (size >= 18.6 && Number(s.fontWeight) >= 700) ? 3 : 4.5)) bad.push([n.nodeValue.trim().slice(0, 40), e.className, ratio.toFixed(2)]);
}
return bad;
"""
