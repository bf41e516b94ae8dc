// Runs models in onnxruntime-web under Node, on one thread.
//     node onnxruntime_web.mjs PATH_OF_ORT FOLDER
// FOLDER has jobs.json (shape, repeat, models), x.bin and NAME.onnx; NAME.bin is written for each model, and the last line
// of the output is JSON: the version, and for each name the least milliseconds of a run, or the error.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [, , place, folder] = process.argv;
const ort = await import(pathToFileURL(place).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const jobs = JSON.parse(fs.readFileSync(path.join(folder, 'jobs.json'), 'utf8'));
const bytes = fs.readFileSync(path.join(folder, 'x.bin'));
const x = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const answers = { version: ort.env.versions.web ?? ort.env.versions.common };
for (const name of jobs.models) {
  try {
    const model = new Uint8Array(fs.readFileSync(path.join(folder, `${name}.onnx`)));
    const session = await ort.InferenceSession.create(model, { executionProviders: ['wasm'] });
    const feeds = { x: new ort.Tensor('float32', x, jobs.shape) };
    let outputs = await session.run(feeds);
    let least = Infinity;
    for (let i = 0; i < jobs.repeat; i++) {
      const begin = process.cpuUsage();
      outputs = await session.run(feeds);
      const used = process.cpuUsage(begin);
      least = Math.min(least, (used.user + used.system) / 1000);
    }
    const y = outputs.y.data;
    fs.writeFileSync(path.join(folder, `${name}.bin`), Buffer.from(y.buffer, y.byteOffset, y.byteLength));
    answers[name] = { ms: least };
  } catch (error) {
    answers[name] = { error: String(error.message ?? error).slice(0, 500) };
  }
}
console.log(JSON.stringify(answers));
