#!/usr/bin/env python3
"""Runs a task of the evaluation harness lm-eval over data files of yours, against a server's /v1/completions.

    pip install 'lm_eval[api]==0.4.13'
    tools/lm_eval_file.py gsm8k train=train.jsonl test=test.jsonl --url http://127.0.0.1:8000 --out answers.jsonl

The task is the harness's own: its prompts, its examples and its way of reading an answer. Only its data come from the
files, one JSON object a line with the fields that the task reads (gsm8k: "question" and "answer", which ends in
"#### NUMBER"). `train` has the examples that stand before each question, `test` the questions. With --out every answer
is written as a line, so that two runs can be compared with `cmp`.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import urllib.request


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="the name that lm-eval has for it, as gsm8k")
    parser.add_argument("data", nargs="+", metavar="SPLIT=FILE", help="a JSON Lines file for each split of the task")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server")
    parser.add_argument("--limit", type=int, help="only so many questions")
    parser.add_argument("--num-fewshot", type=int, help="examples before each question, instead of the task's own number")
    parser.add_argument("--concurrent", type=int, default=8, help="requests at once")
    parser.add_argument("--max-length", type=int, default=4096, help="tokens of a prompt and its answer")
    parser.add_argument("--out", type=pathlib.Path, help="file for the answers, one JSON object a line")
    return parser.parse_args()


def data_files(pairs):
    files = {}
    for pair in pairs:
        split, found, path = pair.partition("=")
        if not found or not pathlib.Path(path).is_file():
            sys.exit(f"expected SPLIT=FILE with a file that exists, found {pair!r}")
        files[split] = str(pathlib.Path(path).resolve())
    return files


def main():
    args = arguments()
    files = data_files(args.data)
    try:
        import lm_eval
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        sys.exit(f"{error}: install the harness with `pip install 'lm_eval[api]==0.4.13'`")
    with urllib.request.urlopen(args.url + "/v1/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    client = {"base_url": args.url + "/v1/completions", "model": model, "tokenizer_backend": "remote",
              "tokenized_requests": False, "num_concurrent": args.concurrent, "max_retries": 1, "max_length": args.max_length}
    known = TaskManager().task_index
    if args.task not in known or not known[args.task].yaml_path:
        sys.exit(f"expected a task that lm-eval reads from a YAML file, found {args.task!r}")
    task = {"task": args.task, "include": str(known[args.task].yaml_path), "dataset_path": "json", "dataset_name": None,
            "dataset_kwargs": {"data_files": files}}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "task.yaml")  # JSON is YAML
        path.write_text(json.dumps(task))
        result = lm_eval.simple_evaluate(model="local-completions", model_args=client, tasks=[str(path)], limit=args.limit,
                                         num_fewshot=args.num_fewshot, bootstrap_iters=0)
    for name, value in sorted(result["results"][args.task].items()):
        if isinstance(value, (int, float)):
            print(f"{name}: {value}")
    if args.out:
        samples = {sample["doc_id"]: sample for sample in result["samples"][args.task]}
        lines = [json.dumps({"id": i, "answer": samples[i]["resps"][0][0]}, ensure_ascii=False) for i in sorted(samples)]
        args.out.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
