const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const { execFileSync } = require("child_process");
const assert = require("assert");
const fs = require("fs");
const http = require("http");
const os = require("os");

const ask = (port) => new Promise((done, failed) => {
  http.get({ host: "127.0.0.1", port }, (answer) => {
    let body = "";
    answer.on("data", (part) => body += part).on("end", () => done(body));
  }).on("error", failed);
});

const square = (number) => new Promise((done, failed) => {
  new Worker(__filename, { workerData: number }).on("message", done).on("error", failed);
});

async function main() {
  assert.deepStrictEqual(await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(square)), [1, 4, 9, 16, 25, 36, 49, 64]);
  assert.strictEqual(execFileSync("sh", ["-c", "echo child"]).toString(), "child\n");
  const server = http.createServer((request, answer) => answer.end("hello"));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  assert.strictEqual(await ask(server.address().port), "hello");
  server.close();
  await fs.promises.writeFile("file", "text");
  assert.strictEqual(await fs.promises.readFile("file", "utf8"), "text");
  assert(os.cpus().length > 0 && os.totalmem() > 0);
}

if (isMainThread) {
  main().then(() => console.log("works"), (error) => { console.error(error); process.exit(1); });
} else {
  parentPort.postMessage(workerData * workerData);
}
