"""Pages of others in a real browser (Debian's chromium) against a server on this machine: a name that is pointed here after its page was
loaded (DNS rebinding), and reads, forms and frames across origins. Nothing is computed for them, and they read nothing."""

import contextlib
import http.server
import re
import socket
import threading

from browser import Browser
from server_process import BUILD, Server

# Both are pages' names; a page of `good` is allowed where the server says so.
NAMES = ("--host-resolver-rules=MAP evil.example 127.0.0.1, MAP good.example 127.0.0.1",)
REQUEST = '{"prompt": "Once", "max_tokens": 5}'
# Calls as a page does; returns the status and the text of the answer, or the error.
CALL = """
const [url, options, done] = arguments;
fetch(url, options).then((r) => r.text().then((text) => done([r.status, text])), (e) => done([0, String(e)]));"""


class Blank(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>a page</title><body>")


class Pages(http.server.ThreadingHTTPServer):
    def __init__(self):
        self.connections = []
        super().__init__(("127.0.0.1", 0), Blank)

    def process_request(self, request, client_address):
        self.connections.append(request)
        super().process_request(request, client_address)


@contextlib.contextmanager
def pages():
    """A server of somebody's pages; its port."""
    server = Pages()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        for connection in server.connections:  # the browser opens some that it does not need yet
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()


def refused(server):
    return sum(int(count) for count in re.findall(r'^sluice_http_requests_total{path="[^"]*",status="403"} (\d+)$', server.metrics(), re.M))


class Visit(Browser):
    """A page of somebody's, and what `server` did for it."""

    def __init__(self, url):
        super().__init__(url, flags=NAMES, is_page=False)
        assert self.driver.title == "a page"

    def call(self, url, **options):
        return self.driver.execute_async_script(CALL, url, options)

    def is_refused(self, server, attempt):
        before = refused(server)
        attempt()
        self.until(lambda: refused(server) > before)
        assert server.metric("sluice_prompt_tokens_total") == 0, "something was computed"


def test_a_name_that_is_pointed_here_later():
    """For the browser the server is the page's own then: it sends what the page wants, and would let it read everything."""
    with pages() as port:
        visit = Visit(f"http://evil.example:{port}/")
    with visit as b, Server(command=[BUILD / "sluice", "serve", "--port", str(port)]) as server:
        for method, path in (("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/debug/engine/trace"), ("GET", "/"), ("POST", "/v1/completions")):
            status, text = b.call(path, method=method, body=REQUEST if method == "POST" else None, headers={"Content-Type": "application/json"})
            assert status == 403 and "host_not_allowed" in text and "tiny" not in text, (path, status, text)
        assert b.call("http://127.0.0.1:%d/v1/models" % port)[0] == 0
        assert refused(server) >= 6 and server.metric("sluice_prompt_tokens_total") == 0
        # Under its own name the server is there.
        b.driver.get(f"http://localhost:{port}/")
        b.until(lambda: b.js("return Boolean(window.sluice)"))
        assert b.call("/v1/completions", method="POST", body=REQUEST, headers={"Content-Type": "application/json"})[0] == 200
        assert server.metric("sluice_prompt_tokens_total") > 0


def test_pages_of_other_origins():
    with pages() as port, Server() as server, Visit(f"http://evil.example:{port}/") as b:
        for url in (server.url, server.url.replace("127.0.0.1", "localhost"), server.url.replace("127.0.0.1", "evil.example")):
            # A request that needs no leave of the server is sent by the browser at once.
            b.is_refused(server, lambda url=url: b.call(url + "/v1/completions", method="POST", body=REQUEST, mode="no-cors"))
            b.is_refused(server, lambda url=url: b.call(url + "/v1/completions", method="POST", body=REQUEST, headers={"Content-Type": "application/json"}))
            assert b.call(url + "/v1/models")[0] == 0
            b.is_refused(server, lambda url=url: b.js("navigator.sendBeacon(arguments[0] + '/v1/completions', arguments[1])", url, REQUEST))
            # A form, whose text is JSON too, answered in a frame; and one from a frame that has no origin.
            b.is_refused(server, lambda url=url: b.js("""
                const form = document.createElement('form'), field = document.createElement('input'), frame = document.createElement('iframe');
                frame.name = 'answer';
                document.body.append(frame, form);
                Object.assign(form, {action: arguments[0] + '/v1/completions', method: 'POST', enctype: 'text/plain', target: 'answer'});
                Object.assign(field, {name: arguments[1].slice(0, -1) + ', "user": "', value: '"}'});
                form.append(field);
                form.submit();""", url, REQUEST))
            b.is_refused(server, lambda url=url: b.js("""
                const frame = document.createElement('iframe');
                frame.sandbox = 'allow-scripts';
                frame.srcdoc = `<script>fetch('${arguments[0]}/v1/completions', {method: 'POST', mode: 'no-cors', body: '${arguments[1]}'})</script>`;
                document.body.append(frame);""", url, REQUEST))
        # A request that says nothing of its origin is answered, and not run or shown: a script, a frame.
        assert b.driver.execute_async_script("""
            const [url, done] = arguments, script = document.createElement('script');
            Object.assign(script, {src: url + '/page/main.js', onload: () => done('run'), onerror: () => done('refused')});
            document.body.append(script);""", server.url) == "refused"
        frame = b.driver.execute_async_script("""
            const [url, done] = arguments, frame = document.createElement('iframe');
            Object.assign(frame, {src: url, onload: () => done(frame)});
            document.body.append(frame);""", server.url)
        b.driver.switch_to.frame(frame)
        assert b.js("return [location.protocol, Boolean(window.sluice)]") == ["chrome-error:", False]
        assert server.metric("sluice_generation_tokens_total") == 0


def test_a_page_that_is_allowed_reads_what_others_do_not():
    with pages() as port, Server("--cors-origin", f"http://good.example:{port}") as server:
        with Visit(f"http://good.example:{port}/") as b:
            status, text = b.call(server.url + "/v1/completions", method="POST", body=REQUEST, headers={"Content-Type": "application/json"})
            assert status == 200 and "choices" in text
        computed = server.metric("sluice_prompt_tokens_total")
        with Visit(f"http://evil.example:{port}/") as b:
            before = refused(server)
            assert b.call(server.url + "/v1/completions", method="POST", body=REQUEST)[0] == 0
            assert refused(server) == before + 1 and server.metric("sluice_prompt_tokens_total") == computed
