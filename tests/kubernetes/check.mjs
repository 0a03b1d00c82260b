// Checks resources of the Prometheus operator, one JSON file each: `node check.mjs FILE…`.
// The schemas know patterns and what is required; the types know that no other field is there.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** Where the models of an API's version are. */
const MODELS = {
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
};
const here = fileURLToPath(new URL(".", import.meta.url));

/** What the compiler says of a resource as a literal of its type. */
function typed(resource) {
  const { kind, apiVersion } = resource;
  const file = `${here}${kind}.check.ts`;
  const source = `import type { I${kind} } from "${MODELS[apiVersion]}/${kind}";\nexport const it: I${kind} = ${JSON.stringify(resource, null, 1)};\n`;
  const options = { strict: true, noEmit: true, skipLibCheck: true, types: [], module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (name) => name === file || fileExists(name);
  host.readFile = (name) => (name === file ? source : readFile(name));
  host.getSourceFile = (name, ...more) =>
    name === file ? ts.createSourceFile(name, source, more[0]) : getSourceFile(name, ...more);
  const found = ts.getPreEmitDiagnostics(ts.createProgram([file], options, host));
  return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}

let complaints = 0;
for (const path of process.argv.slice(2)) {
  const resource = JSON.parse(readFileSync(path, "utf8"));
  const { [resource.kind]: Model } = await import(`${MODELS[resource.apiVersion]}/${resource.kind}`);
  const said = typed(resource);
  try {
    new Model(resource).validate();
  } catch (error) {
    said.push(error.message);
  }
  for (const line of said) console.error(`${path}: ${line}`);
  complaints += said.length;
}
process.exitCode = complaints > 0 ? 1 : 0;
