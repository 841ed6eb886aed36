// Asks the driver program; answers come in the order of the questions.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export function startDriver() {
  const child = spawn(process.env.TWINBOX_DRIVER, { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = [];
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift().resolve(JSON.parse(line)));
  child.on('exit', () => waiting.forEach(({ reject }) => reject(new Error('the driver has gone'))));
  return {
    ask(question) {
      return new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        child.stdin.write(JSON.stringify(question) + '\n');
      });
    },
    stop() {
      child.stdin.end();
    },
  };
}
