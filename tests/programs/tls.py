import socket
import ssl
import subprocess
import threading

assert ssl.create_default_context().get_ca_certs(), "no certificate authorities"
subprocess.run(
    ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert", "-days", "1",
     "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
    check=True, capture_output=True)
server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server_side.load_cert_chain("cert", "key")
listener = socket.create_server(("127.0.0.1", 0))


def serve():
    with server_side.wrap_socket(listener.accept()[0], server_side=True) as connection:
        connection.sendall(connection.recv(100).upper())


thread = threading.Thread(target=serve)
thread.start()
client_side = ssl.create_default_context(cafile="cert")
with socket.create_connection(listener.getsockname(), 10) as raw:
    with client_side.wrap_socket(raw, server_hostname="localhost") as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"HELLO"
thread.join()
print("works")
