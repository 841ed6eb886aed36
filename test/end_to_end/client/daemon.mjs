// Starts the real program in a folder of its own, on a free port, and stops it.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export async function startDaemon(config, environment = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'twinbox_client_'));
  await writeFile(join(folder, 'twinbox.toml'), config);
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('TWINBOX_'));
  const child = spawn(process.env.TWINBOX_PROGRAM, ['serve', '--config', 'twinbox.toml'], {
    cwd: folder,
    env: {
      ...Object.fromEntries(inherited),
      TWINBOX_SERVER_LISTEN: '127.0.0.1:0',
      TWINBOX_ACCESS_LOOPBACK_WITHOUT_TOKEN: 'true',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines = [];
  const waiting = new Set();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      waiting.forEach((look) => look());
    });
  }
  const exited = new Promise((resolve) => child.on('exit', resolve));
  /** The first line that matches, of those that were and those that come. */
  function waitFor(pattern) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = lines.map((line) => pattern.exec(line)).find(Boolean);
        if (!found) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      exited.then(() => reject(new Error(`no line like ${pattern}:\n` + lines.join('\n'))));
      look();
    });
  }
  const address = (await waitFor(/listening .*address=(\S+)/))[1];
  return {
    url: `http://${address}`,
    lines,
    waitFor,
    /** SIGTERM; the exit code. */
    async stop() {
      child.kill('SIGTERM');
      const code = await exited;
      await rm(folder, { recursive: true });
      return code;
    },
  };
}
