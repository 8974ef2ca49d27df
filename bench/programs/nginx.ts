/** Runs nginx as a plain reverse proxy in front of chat-upstream, with one process and nothing buffered or
 *  logged: node nginx.js UPSTREAM_PORT. It prints its port and its process id. nginx ends with this program
 *  (setpriv, of util-linux). */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort, listening } from "../port.ts"

const [upstream] = process.argv.slice(2)
const port = await freePort()
const folder = mkdtempSync(join(tmpdir(), "troupe-nginx-"))

const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
  .map((what) => `${what}_temp_path ${join(folder, what)};`)
  .join(" ")

writeFileSync(
  join(folder, "nginx.conf"),
  `
daemon off; master_process off; pid ${join(folder, "pid")}; error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; client_body_buffer_size 1m; ${temporary}
  upstream model { server 127.0.0.1:${upstream}; keepalive 1024; keepalive_requests 1000000000; keepalive_timeout 1h; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 1h; }
  }
}
`
)

const nginx = spawn(
  "setpriv",
  ["--pdeathsig", "KILL", "nginx", "-e", "stderr", "-p", folder, "-c", join(folder, "nginx.conf")],
  { stdio: ["ignore", "ignore", "inherit"] }
)

nginx.on("exit", (code) => {
  rmSync(folder, { recursive: true, force: true })
  process.exit(code ?? 1)
})

await listening(port)
rmSync(folder, { recursive: true })
console.log(port, nginx.pid)
