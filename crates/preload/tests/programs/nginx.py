"""nginx with a master and two workers, until a file appears. It serves when each process has said what becomes of its listener."""
import os, subprocess, sys, tempfile, threading, time

PROCESSES = 3


def pass_on(stream):
    listeners = 0
    for line in stream:
        sys.stderr.write(line)
        sys.stderr.flush()
        listeners += "TCP listener at" in line
        if listeners == PROCESSES and "TCP listener at" in line:
            print("serves", flush=True)


address, end = sys.argv[1], sys.argv[2]
with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)
    with open(f"{folder}/nginx.conf", "w") as file:
        file.write(f"""
daemon off; master_process on; worker_processes 2; user root; pid {folder}/pid; error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen {address}:8080; location / {{ return 200 "page of $request_uri\\n"; }} }}
}}
""")
    command = ["/usr/sbin/nginx", "-p", folder, "-c", f"{folder}/nginx.conf"]
    nginx = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    reader = threading.Thread(target=pass_on, args=(nginx.stderr,))
    reader.start()
    while not os.path.exists(end) and nginx.poll() is None:
        time.sleep(0.02)
    nginx.terminate()
    code = nginx.wait()
    reader.join()
    print("nginx ended with", code, flush=True)
