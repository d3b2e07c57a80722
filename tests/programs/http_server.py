import http.server
import threading
import urllib.request

with open("page", "w") as file:
    file.write("a page")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with urllib.request.urlopen(f"http://localhost:{server.server_port}/page", timeout=10) as answer:
    assert answer.read() == b"a page"
server.shutdown()
print("works")
