-- Neovim as the client: what an editor shows while a kernel is being written. lsp.sh says how it is run.
local failures = {}

local function check(fine, what)
    if not fine then
        table.insert(failures, what)
    end
end

local function wait(what, condition)
    check(vim.wait(20000, condition, 20), what)
end

local function messages()
    local texts = {}
    for _, diagnostic in ipairs(vim.diagnostic.get(0)) do
        table.insert(texts, diagnostic.message)
    end
    return table.concat(texts, "\n")
end

local function request(method, row, column)
    vim.api.nvim_win_set_cursor(0, { row, column })
    local answers = vim.lsp.buf_request_sync(0, method, vim.lsp.util.make_position_params(), 20000)
    for _, answer in pairs(answers or {}) do
        return answer.result
    end
end

vim.cmd("edit " .. vim.env.LSP_KERNEL)
local client = vim.lsp.start_client({ cmd = { vim.env.PHOBOSC, "--lsp" }, root_dir = vim.fn.getcwd() })
vim.lsp.buf_attach_client(0, client)
wait("a diagnostic of the unknown name", function() return messages():find("unknown name 'alpa'; did you mean 'alpha'?", 1, true) ~= nil end)

local row = vim.fn.search("+= alpa")
vim.fn.setline(row, (vim.fn.getline(row):gsub("alpa", "alpha")))
wait("no diagnostic once it is corrected", function() return messages() == "" end)

local hover = request("textDocument/hover", row, vim.fn.getline(row):find("alpha") - 1)
check(hover and hover.contents.value:find("alpha: f32", 1, true), "hover says the type")
local definition = request("textDocument/definition", row, vim.fn.getline(row):find("alpha") - 1)
check(definition and vim.fn.getline(definition.range.start.line + 1):find("^kernel"), "the definition is in the kernel's parameters")
local items = request("textDocument/completion", row, 4)
check(items and #items > 20, "completion offers the language")

vim.fn.setline(row, (vim.fn.getline(row):gsub(" %* ", "*")))
vim.lsp.buf.formatting_sync(nil, 20000)
check(vim.fn.getline(row):find(" * ", 1, true), "formatting puts spaces around operators: " .. vim.fn.getline(row))

for _, failure in ipairs(failures) do
    io.stderr:write("FAILED: " .. failure .. "\n")
end
vim.cmd(#failures == 0 and "qa!" or "cquit!")
