// Lets the scripts of this folder import packages that are installed in target/real.
import { registerHooks } from "node:module";

const installed = new URL("../../target/real/package.json", import.meta.url).href;
const here = new URL("./", import.meta.url).href;

registerHooks({
  resolve(specifier, context, nextResolve) {
    const isPackage = !/^(\.|\/|node:|file:|data:)/.test(specifier);
    const isOurs = context.parentURL?.startsWith(here);
    return nextResolve(specifier, isPackage && isOurs ? { ...context, parentURL: installed } : context);
  },
});
